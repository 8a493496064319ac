/* The first program of a small machine (init): the kernel promises no more memory than it has, all of it is reserved, and a
 * process goes on emitting. Prints a line for each case: how its process ended, and what it saw. Powers the machine off. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <trace.h>
#include <unistd.h>

enum { SENT = 100000, THREADS = 8, TYPES = 900, LIMIT_KIB = 200000, PIECES = 1024 };

static trace_id_t stream;
static trace_event_id_t type;

static void need(int is_so, const char *what)
{
	if (!is_so) {
		printf("%s: %s\n", what, strerror(errno));
		_exit(1);
	}
}

static void set(const char *name, int value)
{
	char path[100], text[20];
	snprintf(path, sizeof path, "/proc/sys/vm/%s", name);
	int length = snprintf(text, sizeof text, "%d", value);
	int file = open(path, O_WRONLY);
	need(file >= 0 && write(file, text, length) == length, path);
	close(file);
}

static struct {
	void *base;
	size_t bytes;
} reserved[PIECES];
static int pieces;

/* Leaves not one page to be promised. */
static void reserve_all(void)
{
	for (size_t bytes = 64 << 20; bytes >= 4096; bytes /= 2)
		while (pieces < PIECES) {
			void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (base == MAP_FAILED)
				break;
			reserved[pieces].base = base;
			reserved[pieces++].bytes = bytes;
		}
	need(pieces > 0 && pieces < PIECES, "nothing was reserved");
}

static void release_all(void)
{
	while (pieces > 0) {
		pieces--;
		munmap(reserved[pieces].base, reserved[pieces].bytes);
	}
}

static int create(size_t bytes)
{
	trace_attr_t attributes;
	int error = posix_trace_attr_init(&attributes);
	if (!error)
		error = posix_trace_attr_setstreamsize(&attributes, bytes);
	if (!error)
		error = posix_trace_attr_setinherited(&attributes, POSIX_TRACE_INHERITED);
	if (!error)
		error = posix_trace_create(0, &attributes, &stream);
	if (!error)
		error = posix_trace_eventid_open("overcommit", &type);
	return error ? error : posix_trace_start(stream);
}

static void must_create(size_t bytes)
{
	errno = create(bytes);
	need(!errno, "create");
}

static void emit(long count)
{
	for (long i = 0; i < count; i++)
		posix_trace_event(type, &i, sizeof i);
}

/* What the stream has, when there is memory again. */
static void report(void)
{
	release_all();
	struct posix_trace_status_info status;
	struct posix_trace_event_info info;
	long data, events = 0;
	size_t length;
	int is_unavailable = 0;
	int error = posix_trace_get_status(stream, &status);
	while (!posix_trace_trygetnext_event(stream, &info, &data, sizeof data, &length, &is_unavailable)
		   && !is_unavailable)
		events += info.posix_event_id == type;
	printf("status %d overrun %d read %ld ", error, status.posix_stream_overrun_status == POSIX_TRACE_OVERRUN, events);
}

static void first_events(void)
{
	must_create(1 << 20);
	reserve_all();
	emit(SENT);
	report();
}

static void further_events(void)
{
	must_create(1 << 20);
	emit(10);
	reserve_all();
	emit(SENT - 10);
	report();
}

static void events_after_reading(void)
{
	must_create(1 << 20);
	emit(SENT);
	report();
	reserve_all();
	emit(SENT);
	report();
}

static pthread_barrier_t barrier;

static void *emit_in_time(void *unused)
{
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	emit(SENT / THREADS);
	/* The stack of one that ends would be memory for those that still emit. */
	pthread_barrier_wait(&barrier);
	return unused;
}

static void threads(void)
{
	pthread_t all[THREADS];
	must_create(1 << 20);
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		need(!pthread_create(&all[i], NULL, emit_in_time, NULL), "thread");
	pthread_barrier_wait(&barrier);
	reserve_all();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		pthread_join(all[i], NULL);
	report();
}

static void child(void)
{
	int ends[2], ended;
	char byte = 0;
	must_create(1 << 20);
	need(!pipe(ends), "pipe");
	pid_t child = fork();
	if (child == 0) {
		need(read(ends[0], &byte, 1) == 1, "read");
		emit(SENT);
		_exit(0);
	}
	reserve_all();
	need(write(ends[1], &byte, 1) == 1, "write");
	need(waitpid(child, &ended, 0) == child && ended == 0, "the child did not exit");
	report();
}

static void types(void)
{
	trace_event_id_t id;
	must_create(1 << 20);
	reserve_all();
	for (int i = 0; i < TYPES; i++) {
		char name[30];
		snprintf(name, sizeof name, "type %d", i);
		errno = posix_trace_eventid_open(name, &id);
		need(errno == 0 || errno == ENOMEM, "type");
	}
	emit(SENT);
	report();
}

static void another_stream(void)
{
	must_create(64 << 10);
	emit(SENT);
	reserve_all();
	printf("create %d ", create(64 << 20));
	emit(SENT);
	report();
}

static void no_stream(void)
{
	reserve_all();
	printf("create %d ", create(1 << 20));
	emit(SENT);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"first events", first_events},
	{"further events", further_events},
	{"events after reading", events_after_reading},
	{"threads", threads},
	{"child", child},
	{"types", types},
	{"another stream", another_stream},
	{"no stream", no_stream},
};

static void run(const char *name, void (*what)(void))
{
	int ended;
	printf("%s: ", name);
	fflush(stdout);
	pid_t process = fork();
	if (process == 0) {
		alarm(60);
		what();
		fflush(stdout);
		_exit(0);
	}
	need(waitpid(process, &ended, 0) == process, "waitpid");
	if (WIFSIGNALED(ended))
		printf("signal %d\n", WTERMSIG(ended));
	else
		printf("exit %d\n", WEXITSTATUS(ended));
}

int main(void)
{
	need(!mount("proc", "/proc", "proc", 0, NULL), "/proc");
	set("admin_reserve_kbytes", 0);
	set("user_reserve_kbytes", 0);
	set("overcommit_kbytes", LIMIT_KIB);
	set("overcommit_memory", 2);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		run(cases[i].name, cases[i].run);
	printf("all cases ended\n");
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 1;
}
