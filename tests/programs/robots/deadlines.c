/* A node whose callback is late for a cause that is known.
 *
 * deadlines CAUSE MILLISECONDS FOLDER
 *
 * A talker publishes messages, and an executor on another CPU takes them: real-time threads, so that
 * the rest of the machine is no cause, but where the cause is one among normal threads. The message
 * LATE is the late one; the others are not.
 * CAUSE is a row of `causes`; "none" delays nothing. FOLDER is on a disk, or, where the cause is a
 * control group's, that group. Prints the nanoseconds that the cause took, as the program itself or
 * the kernel measured it, and the tids of the threads by their names. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "original.h"

enum { MESSAGES = 6, LATE = 3, PERIOD_US = 20000, PAGE = 4096, FILE_BYTES = 64 << 20 };

#define CHECK(is_right)                                                                 \
    do {                                                                                \
        if (!(is_right)) {                                                              \
            fprintf(stderr, "%d: %s: %s\n", __LINE__, #is_right, strerror(errno));      \
            exit(3);                                                                    \
        }                                                                               \
    } while (0)

static char context, node, rmw_node, publisher, rmw_publisher, timer, timer_callback;
static char subscription, rmw_subscription, subscription_object, subscription_callback;
static char second_timer, second_callback;
static const uint8_t gid[16] = {4, 7};

struct message {
    int64_t stamp;
    int number;
};

/* Shared by all processes. */
static struct {
    volatile int is_wanted, is_there, is_over, is_late_next;
    volatile int64_t took;
} *shared;

static int64_t milliseconds;
static const char *cause, *folder;
static int first_cpu, second_cpu;
static pthread_mutex_t lock;
static char *pages;
static int disk;

static int64_t nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t wanted_ns(void)
{
    return milliseconds * INT64_C(1000000);
}

/* How long the thread has slept, as the kernel counts it: it had no CPU, and wanted none. */
static int64_t slept(void)
{
    long long had = 0, waited = 0;
    FILE *counts = fopen("/proc/thread-self/schedstat", "r");
    CHECK(counts != NULL && fscanf(counts, "%lld %lld", &had, &waited) == 2);
    fclose(counts);
    return nanoseconds(CLOCK_MONOTONIC) - had - waited;
}

/* Computes for so long of its own time. */
static void compute(int64_t ns)
{
    int64_t end = nanoseconds(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (nanoseconds(CLOCK_THREAD_CPUTIME_ID) < end)
        ;
}

static void sleep_ns(int64_t ns)
{
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &time) != 0)
        ;
}

static void pin(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
}

static void be_fifo(int priority)
{
    struct sched_param of = {.sched_priority = priority};
    CHECK(sched_setscheduler(0, SCHED_FIFO, &of) == 0);
}

static void be_called(const char *name)
{
    CHECK(prctl(PR_SET_NAME, name) == 0);
    printf("%s %d\n", name, (int)syscall(SYS_gettid));
    fflush(stdout);
}

/* Among normal threads, those of this session come first: other work of the machine is no cause. */
static void come_before_others(void)
{
    (void)setsid();
    int file = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        (void)!write(file, "-20", 3);
        close(file);
    }
}

/* Waits until the executor wants it, by sleeping: it has no CPU meanwhile. */
static void wait_until_wanted(void)
{
    shared->is_there = 1;
    while (!shared->is_wanted)
        sleep_ns(200000);
}

static void want(void)
{
    shared->is_wanted = 1;
}

/* --- Who delays the callback. --- */

/* Has the lock when the callback wants it, and computes, or sleeps. */
static void *hold(void *is_asleep)
{
    be_called("holder");
    pin(second_cpu);
    pthread_mutex_lock(&lock);
    wait_until_wanted();
    int64_t since = nanoseconds(CLOCK_MONOTONIC);
    if (is_asleep)
        sleep_ns(wanted_ns());
    else
        compute(wanted_ns());
    shared->took = nanoseconds(CLOCK_MONOTONIC) - since;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Has the lock and no CPU: on that of the executor, behind who is more urgent. */
static void *hold_less_urgent(void *unused)
{
    be_called("holder");
    be_fifo(1);
    pthread_mutex_lock(&lock);
    wait_until_wanted();
    /* It is woken with the middle one, which comes first. */
    compute(100000);
    pthread_mutex_unlock(&lock);
    return unused;
}

/* Computes on the executor's CPU: `priority` is that of SCHED_FIFO, 0 that of normal threads. */
static void hog(const char *name, int priority)
{
    be_called(name);
    if (priority > 0)
        be_fifo(priority);
    else
        CHECK(setpriority(PRIO_PROCESS, 0, -20) == 0);
    wait_until_wanted();
    int64_t since = nanoseconds(CLOCK_MONOTONIC);
    compute(wanted_ns());
    shared->took = nanoseconds(CLOCK_MONOTONIC) - since;
    shared->is_over = 1;
}

static void stop_executor(pid_t executor)
{
    be_called("stopper");
    pin(second_cpu);
    wait_until_wanted();
    int64_t since = nanoseconds(CLOCK_MONOTONIC);
    CHECK(kill(executor, SIGSTOP) == 0);
    sleep_ns(wanted_ns());
    CHECK(kill(executor, SIGCONT) == 0);
    shared->took = nanoseconds(CLOCK_MONOTONIC) - since;
    shared->is_over = 1;
}

static void write_to(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text)) {
        perror(path);
        exit(3);
    }
    close(file);
}

static void write_in_folder(const char *file, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    write_to(path, text);
}

/* Sends packets whose receiving is the work of the executor's CPU, in soft interrupts. */
static void flood(void)
{
    char mask[32];
    be_called("sender");
    pin(second_cpu);
    /* The talker comes before it. */
    be_fifo(1);
    /* A network of its own, whose packets are received where it is told. */
    CHECK(unshare(CLONE_NEWNET | CLONE_NEWNS) == 0);
    CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mount("sysfs", "/sys", "sysfs", 0, NULL) == 0);
    CHECK(system("ip link set lo up") == 0);
    snprintf(mask, sizeof mask, "%x", 1U << first_cpu);
    write_to("/sys/class/net/lo/queues/rx-0/rps_cpus", mask);
    int from = socket(AF_INET, SOCK_DGRAM, 0), to = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(9)};
    inet_aton("127.0.0.1", &at.sin_addr);
    CHECK(bind(to, (struct sockaddr *)&at, sizeof at) == 0);
    /* Receiving a packet takes long: it runs this, and is dropped. */
    static struct sock_filter work[BPF_MAXINSNS];
    for (int i = 0; i < BPF_MAXINSNS - 1; i++)
        work[i] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 3);
    work[BPF_MAXINSNS - 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {.len = BPF_MAXINSNS, .filter = work};
    CHECK(setsockopt(to, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
    CHECK(connect(from, (struct sockaddr *)&at, sizeof at) == 0);
    shared->is_there = 1;
    char bytes[1000] = "";
    while (!shared->is_over)
        (void)!send(from, bytes, sizeof bytes, 0);
}

/* --- What the callback does. --- */

static void nothing(void)
{
}

static void take_lock(void)
{
    want();
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}

/* It is held up amid its own work, of a fiftieth of the time. */
static void work_beside(void)
{
    want();
    while (!shared->is_over)
        ;
}

/* The same where the other one has a CPU only if this one sleeps: it is more urgent. */
static void work_until_woken(void)
{
    want();
    int64_t end = nanoseconds(CLOCK_MONOTONIC) + 1000000;
    while (nanoseconds(CLOCK_MONOTONIC) < end || !shared->is_over)
        ;
}

static void fault_from_disk(void)
{
    int64_t since = nanoseconds(CLOCK_MONOTONIC), had_slept = slept();
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    for (size_t at = 0; nanoseconds(CLOCK_MONOTONIC) - since < wanted_ns(); at += 64 * PAGE)
        (void)((volatile char *)pages)[at % FILE_BYTES];
    getrusage(RUSAGE_THREAD, &after);
    CHECK(after.ru_majflt > before.ru_majflt);
    shared->took = slept() - had_slept;
}

static void fault_from_memory(void)
{
    int64_t since = nanoseconds(CLOCK_MONOTONIC);
    struct rusage before, after;
    getrusage(RUSAGE_THREAD, &before);
    while (nanoseconds(CLOCK_MONOTONIC) - since < wanted_ns()) {
        CHECK(madvise(pages, 64 * PAGE, MADV_DONTNEED) == 0);
        for (size_t at = 0; at < 64 * PAGE; at += PAGE)
            pages[at] = 1;
    }
    getrusage(RUSAGE_THREAD, &after);
    printf("faults %ld\n", after.ru_minflt - before.ru_minflt);
    shared->took = nanoseconds(CLOCK_MONOTONIC) - since;
}

static void read_from_disk(void)
{
    static char block[PAGE];
    int64_t since = nanoseconds(CLOCK_MONOTONIC), had_slept = slept();
    for (off_t at = 0; nanoseconds(CLOCK_MONOTONIC) - since < wanted_ns(); at += 64 * PAGE)
        CHECK(pread(disk, block, sizeof block, at % FILE_BYTES) == sizeof block);
    shared->took = slept() - had_slept;
}

/* How long the control group has had no CPU since its time was used up, as the kernel counts it. */
static int64_t throttled(void)
{
    char path[4096], name[64];
    long long value, ns = 0;
    snprintf(path, sizeof path, "%s/cpu.stat", folder);
    FILE *counts = fopen(path, "r");
    CHECK(counts != NULL);
    while (fscanf(counts, "%63s %lld", name, &value) == 2) {
        if (strcmp(name, "throttled_time") == 0)
            ns = value;
        else if (strcmp(name, "throttled_usec") == 0)
            ns = value * 1000;
    }
    fclose(counts);
    return ns;
}

/* Wants more of the CPU than its control group has: three times as much. */
static void work_in_group(void)
{
    int64_t since = throttled();
    compute(6000000);
    shared->took = throttled() - since;
}

/* Wants more of it than its real-time threads have, of which the kernel counts nothing. */
static void work_in_real_time_group(void)
{
    int64_t since = nanoseconds(CLOCK_MONOTONIC), had = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    compute(6000000);
    had = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - had;
    shared->took = nanoseconds(CLOCK_MONOTONIC) - since - had;
}

/* Works for a while, which soft interrupts make longer. */
static void work_among_packets(void)
{
    int64_t end = nanoseconds(CLOCK_MONOTONIC) + wanted_ns();
    while (nanoseconds(CLOCK_MONOTONIC) < end)
        ;
    shared->is_over = 1;
}

/* Looks at the clock for so long, or, where a gap is asked for, until some time after that: the
 * times in which it could not look took so long together. Nothing but the CPU holds it up. */
static void look_at_clock(bool is_gap_asked)
{
    int64_t since = nanoseconds(CLOCK_MONOTONIC), last = since, gap_end = INT64_MAX, now;
    if (is_gap_asked) {
        char text[64];
        snprintf(text, sizeof text, "vmtest: pause %d\n", (int)milliseconds);
        write_to("/dev/console", text);
    }
    do {
        /* Some clocks are read in the kernel: most of the time is not to be there. */
        for (volatile int i = 0; i < 5000; i++)
            ;
        now = nanoseconds(CLOCK_MONOTONIC);
        if (is_gap_asked && now - last > wanted_ns() / 2)
            gap_end = now;
        if (now - last >= 400000)
            shared->took += now - last;
        last = now;
    } while (is_gap_asked ? now - 20000000 < gap_end : now - since < wanted_ns());
}

static void have_gap(void)
{
    look_at_clock(true);
}

static void have_none(void)
{
    look_at_clock(false);
}

/* --- Causes. --- */

static void begin_lock(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hold, NULL) == 0);
}

static void begin_lock_asleep(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hold, &lock) == 0);
}

/* Makes another process, which does this and ends. */
#define IN_PROCESS(what)                              \
    do {                                              \
        pid_t executor = getpid();                    \
        pid_t made = fork();                          \
        CHECK(made >= 0);                             \
        if (made == 0) {                              \
            CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0); \
            (void)executor;                           \
            what;                                     \
            _exit(0);                                 \
        }                                             \
    } while (0)

static void begin_hog(void)
{
    IN_PROCESS(hog("hog", 50));
}

static void begin_neighbour(void)
{
    IN_PROCESS(hog("neighbour", 0));
}

static void begin_stop(void)
{
    IN_PROCESS(stop_executor(executor));
}

static void begin_packets(void)
{
    IN_PROCESS(flood());
}

static void begin_inversion(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hold_less_urgent, NULL) == 0);
    while (!shared->is_there)
        sleep_ns(200000);
    IN_PROCESS(hog("middle", 2));
}

static void make_file(void)
{
    char path[4096];
    static char block[1 << 20];
    snprintf(path, sizeof path, "%s/data", folder);
    disk = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(disk >= 0);
    for (int i = 0; i < FILE_BYTES >> 20; i++) {
        memset(block, i, sizeof block);
        CHECK(write(disk, block, sizeof block) == sizeof block);
    }
    CHECK(fsync(disk) == 0);
    pages = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, disk, 0);
    CHECK(pages != MAP_FAILED && madvise(pages, FILE_BYTES, MADV_RANDOM) == 0);
    CHECK(posix_fadvise(disk, 0, 0, POSIX_FADV_RANDOM) == 0);
    CHECK(posix_fadvise(disk, 0, 0, POSIX_FADV_DONTNEED) == 0);
}

static void make_memory(void)
{
    pages = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
}

/* Two milliseconds of each so many; before other groups, which are no cause. */
static void enter_group(void)
{
    char path[4096], text[64];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (access(path, F_OK) == 0) {
        snprintf(text, sizeof text, "2000 %d", (int)milliseconds * 1000);
        write_in_folder("cpu.max", text);
        write_in_folder("cpu.weight", "10000");
    } else {
        snprintf(text, sizeof text, "%d", (int)milliseconds * 1000);
        write_in_folder("cpu.cfs_period_us", text);
        write_in_folder("cpu.cfs_quota_us", "2000");
        write_in_folder("cpu.shares", "262144");
    }
    write_in_folder("cgroup.procs", "0");
}

static void enter_real_time_group(void)
{
    char text[64];
    snprintf(text, sizeof text, "%d", (int)milliseconds * 1000);
    write_in_folder("cpu.rt_period_us", text);
    write_in_folder("cpu.rt_runtime_us", "2000");
    write_in_folder("cgroup.procs", "0");
}

static const struct row {
    const char *name;
    void (*begin)(void), (*in_callback)(void);
    bool has_helper, is_normal;
} causes[] = {
    {"none", nothing, nothing, false, false},
    {"publisher", nothing, nothing, false, false},
    {"executor", nothing, nothing, false, false},
    {"lock", begin_lock, take_lock, true, false},
    {"lock_asleep", begin_lock_asleep, take_lock, true, false},
    {"hog", begin_hog, work_beside, true, true},
    {"hog_of_fifo", begin_hog, work_until_woken, true, false},
    {"neighbour", begin_neighbour, work_beside, true, true},
    {"inversion", begin_inversion, take_lock, true, false},
    {"stop", begin_stop, work_beside, true, false},
    {"packets", begin_packets, work_among_packets, true, false},
    {"fault_disk", make_file, fault_from_disk, false, false},
    {"fault_memory", make_memory, fault_from_memory, false, false},
    {"disk", make_file, read_from_disk, false, false},
    {"gap", nothing, have_gap, false, false},
    {"no_gap", nothing, have_none, false, false},
    {"quota", enter_group, work_in_group, false, true},
    {"quota_real_time", enter_real_time_group, work_in_real_time_group, false, false},
};
static const struct row *row;

static void begin_node(const char *name)
{
    ros_trace_rcl_init(&context);
    ros_trace_rcl_node_init(&node, &rmw_node, name, "/");
}

static void talk(int out)
{
    be_called("talker");
    begin_node("talker");
    ros_trace_rmw_publisher_init(&rmw_publisher, gid);
    ros_trace_rcl_publisher_init(&publisher, &node, &rmw_publisher, "/chatter", 10);
    ros_trace_rcl_timer_init(&timer, PERIOD_US * INT64_C(1000));
    ros_trace_rclcpp_timer_callback_added(&timer, &timer_callback);
    ros_trace_rclcpp_timer_link_node(&timer, &node);
    for (int number = 0; number < MESSAGES; number++) {
        sleep_ns(PERIOD_US * INT64_C(1000));
        ros_trace_rclcpp_executor_execute(&timer);
        ros_trace_callback_start(&timer_callback, false);
        if (number == LATE && strcmp(cause, "publisher") == 0) {
            int64_t since = nanoseconds(CLOCK_MONOTONIC);
            compute(wanted_ns());
            shared->took = nanoseconds(CLOCK_MONOTONIC) - since;
        }
        struct message message = {nanoseconds(CLOCK_REALTIME), number};
        ros_trace_rclcpp_publish(NULL, &message);
        ros_trace_rcl_publish(&publisher, &message);
        ros_trace_rmw_publish(&rmw_publisher, &message, message.stamp);
        CHECK(write(out, &message, sizeof message) == sizeof message);
        ros_trace_callback_end(&timer_callback);
    }
    close(out);
}

/* The executor's other callback: a timer, which is due when the late message comes. */
static void tick(void)
{
    ros_trace_rclcpp_executor_execute(&second_timer);
    ros_trace_callback_start(&second_callback, false);
    int64_t since = nanoseconds(CLOCK_MONOTONIC);
    compute(wanted_ns());
    shared->took = nanoseconds(CLOCK_MONOTONIC) - since;
    ros_trace_callback_end(&second_callback);
}

static void listen_to(int in)
{
    be_called("executor");
    begin_node("listener");
    ros_trace_rmw_subscription_init(&rmw_subscription, gid);
    ros_trace_rcl_subscription_init(&subscription, &node, &rmw_subscription, "/chatter", 10);
    ros_trace_rclcpp_subscription_init(&subscription, &subscription_object);
    ros_trace_rclcpp_subscription_callback_added(&subscription_object, &subscription_callback);
    ros_trace_rcl_timer_init(&second_timer, INT64_C(50000000));
    ros_trace_rclcpp_timer_callback_added(&second_timer, &second_callback);
    ros_trace_rclcpp_timer_link_node(&second_timer, &node);
    for (int number = 0; number < MESSAGES; number++) {
        struct pollfd there = {.fd = in, .events = POLLIN};
        struct message message;
        CHECK(poll(&there, 1, -1) == 1);
        if (number == LATE && strcmp(cause, "executor") == 0)
            tick();
        CHECK(read(in, &message, sizeof message) == sizeof message);
        ros_trace_rclcpp_executor_execute(&subscription);
        ros_trace_rmw_take(&rmw_subscription, &message, message.stamp, true);
        ros_trace_rcl_take(&message);
        ros_trace_rclcpp_take(&message);
        ros_trace_callback_start(&subscription_callback, false);
        if (number == LATE)
            row->in_callback();
        ros_trace_callback_end(&subscription_callback);
    }
}

int main(int argc, char **argv)
{
    int pipes[2];
    cpu_set_t mine;
    if (argc != 4)
        return 2;
    cause = argv[1];
    milliseconds = atoi(argv[2]);
    folder = argv[3];
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (strcmp(causes[i].name, cause) == 0)
            row = &causes[i];
    if (row == NULL || !ros_trace_compile_status() || pipe(pipes) != 0)
        return 2;
    /* Whatever goes wrong. */
    alarm(30);
    CHECK(sched_getaffinity(0, sizeof mine, &mine) == 0);
    while (!CPU_ISSET(first_cpu, &mine))
        first_cpu++;
    second_cpu = first_cpu + 1;
    while (second_cpu < CPU_SETSIZE && !CPU_ISSET(second_cpu, &mine))
        second_cpu++;
    CHECK(second_cpu < CPU_SETSIZE);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    CHECK(pthread_mutex_init(&lock, NULL) == 0);
    pin(first_cpu);
    if (row->is_normal)
        come_before_others();
    else
        be_fifo(5);
    IN_PROCESS(close(pipes[0]); pin(second_cpu); talk(pipes[1]));
    close(pipes[1]);
    row->begin();
    while (row->has_helper && !shared->is_there)
        sleep_ns(200000);
    listen_to(pipes[0]);
    printf("took %lld\n", (long long)shared->took);
    return 0;
}
