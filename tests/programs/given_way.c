/* given_way ROLE: programs that want one CPU, the first of those that they may use.
 *   hog        takes all that it gets
 *   innocent   takes 50 microseconds of each 1.5 milliseconds, before all others (SCHED_FIFO)
 *   victim     works for 20 milliseconds, sleeps, and so on, ten times
 * The first two print a line once they are on their way, and run until they are killed. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static long ran(void)
{
	struct timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void work(long ns)
{
	for (long start = ran(); ran() < start + ns;)
		;
}

int main(int argc, char **argv)
{
	const char *role = argc > 1 ? argv[1] : "";
	cpu_set_t allowed, one;
	int cpu = 0;

	if (sched_getaffinity(0, sizeof allowed, &allowed))
		return 1;
	while (!CPU_ISSET(cpu, &allowed))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof one, &one) || prctl(PR_SET_NAME, role))
		return 1;
	if (!strcmp(role, "hog")) {
		puts("ready");
		fflush(stdout);
		for (;;)
			;
	}
	if (!strcmp(role, "innocent")) {
		struct sched_param first = {.sched_priority = 50};
		struct timespec pause = {.tv_nsec = 1450000};
		if (sched_setscheduler(0, SCHED_FIFO, &first))
			return 1;
		puts("ready");
		fflush(stdout);
		for (;;) {
			nanosleep(&pause, NULL);
			work(50000);
		}
	}
	for (int round = 0; round < 10; round++) {
		work(20000000);
		usleep(500);
	}
	return 0;
}
