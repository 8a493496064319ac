/* Two nodes in two processes, as the C++ library of ROS 2 has them: a timer publishes, a
 * subscription takes. They call what that library and the middleware call, in its order; messages
 * go through a pipe. Prints what it has counted itself.
 *
 * executor MESSAGES PERIOD_US [late CAUSE]: every tenth callback of the subscription is late, by
 * CAUSE: "busy" computes, "lock" waits for another thread that has a lock. With WAITS in its
 * environment it waits for a line first. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "original.h"

enum { LATE_EVERY = 10, LATE_MS = 20 };

/* Handles are addresses: of these. */
static char context, node, rmw_node, publisher, rmw_publisher, timer, timer_callback;
static char subscription, rmw_subscription, subscription_object, subscription_callback;
static const uint8_t gid[16] = {1, 15, 2};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct message {
    int64_t stamp;
    int number;
};

static int64_t nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void compute(int milliseconds)
{
    /* The thread's own time: however busy the machine is. */
    int64_t end = nanoseconds(CLOCK_THREAD_CPUTIME_ID) + milliseconds * INT64_C(1000000);
    while (nanoseconds(CLOCK_THREAD_CPUTIME_ID) < end)
        ;
}

/* The main thread's state, as /proc says it. */
static char state_of_main(void)
{
    char line[512] = "";
    FILE *stat = fopen("/proc/self/stat", "r");
    char *name_end = stat && fgets(line, sizeof line, stat) ? strrchr(line, ')') : NULL;
    if (stat)
        fclose(stat);
    return name_end ? name_end[2] : '?';
}

/* Holds the lock whenever it is told to, by a byte; lets go of it when the other thread has waited
 * for it for a while. */
static void *hold(void *pipes)
{
    int *asked = pipes;
    char byte;
    while (read(asked[0], &byte, 1) == 1) {
        pthread_mutex_lock(&lock);
        if (write(asked[3], &byte, 1) != 1)
            abort();
        while (state_of_main() != 'S')
            ;
        compute(LATE_MS);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void begin_node(const char *name)
{
    ros_trace_rcl_init(&context);
    ros_trace_rcl_node_init(&node, &rmw_node, name, "/");
}

static void talk(int out, int messages, int period_us)
{
    begin_node("talker");
    ros_trace_rmw_publisher_init(&rmw_publisher, gid);
    ros_trace_rcl_publisher_init(&publisher, &node, &rmw_publisher, "/chatter", 10);
    ros_trace_rcl_timer_init(&timer, period_us * INT64_C(1000));
    ros_trace_rclcpp_timer_callback_added(&timer, &timer_callback);
    ros_trace_rclcpp_callback_register(&timer_callback, "Talker::tick()");
    ros_trace_rclcpp_timer_link_node(&timer, &node);
    for (int number = 0; number < messages; number++) {
        ros_trace_rclcpp_executor_get_next_ready();
        ros_trace_rclcpp_executor_wait_for_work(period_us * INT64_C(1000));
        usleep(period_us);
        ros_trace_rclcpp_executor_execute(&timer);
        ros_trace_callback_start(&timer_callback, false);
        struct message message = {nanoseconds(CLOCK_REALTIME), number};
        ros_trace_rclcpp_publish(NULL, &message);
        ros_trace_rcl_publish(&publisher, &message);
        ros_trace_rmw_publish(&rmw_publisher, &message, message.stamp);
        if (write(out, &message, sizeof message) != sizeof message)
            abort();
        ros_trace_callback_end(&timer_callback);
    }
    close(out);
    printf("published %d\n", messages);
}

static void be_late(const char *cause, const int *asked)
{
    char byte = 0;
    if (strcmp(cause, "busy") == 0) {
        compute(LATE_MS);
    } else if (strcmp(cause, "lock") == 0) {
        if (write(asked[1], &byte, 1) != 1 || read(asked[2], &byte, 1) != 1)
            abort();
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
}

static void listen_to(int in, const char *cause)
{
    int ask[2], answer[2];
    if (pipe(ask) != 0 || pipe(answer) != 0)
        abort();
    int asked[4] = {ask[0], ask[1], answer[0], answer[1]};
    pthread_t holder;
    if (strcmp(cause, "lock") == 0 && pthread_create(&holder, NULL, hold, asked) != 0)
        abort();
    begin_node("listener");
    ros_trace_rmw_subscription_init(&rmw_subscription, gid);
    ros_trace_rcl_subscription_init(&subscription, &node, &rmw_subscription, "/chatter", 10);
    ros_trace_rclcpp_subscription_init(&subscription, &subscription_object);
    ros_trace_rclcpp_subscription_callback_added(&subscription_object, &subscription_callback);
    ros_trace_rclcpp_callback_register(&subscription_callback, "Listener::take(std::string const&)");
    struct message message;
    int taken = 0, late = 0;
    while (read(in, &message, sizeof message) == sizeof message) {
        ros_trace_rclcpp_executor_execute(&subscription);
        ros_trace_rmw_take(&rmw_subscription, &message, message.stamp, true);
        ros_trace_rcl_take(&message);
        ros_trace_rclcpp_take(&message);
        ros_trace_callback_start(&subscription_callback, false);
        taken++;
        if (*cause != '\0' && taken % LATE_EVERY == 0) {
            be_late(cause, asked);
            late++;
        }
        ros_trace_callback_end(&subscription_callback);
    }
    printf("taken %d late %d\n", taken, late);
}

int main(int argc, char **argv)
{
    int messages = argc > 1 ? atoi(argv[1]) : 100;
    int period_us = argc > 2 ? atoi(argv[2]) : 1000;
    const char *cause = argc > 4 ? argv[4] : "";
    int pipes[2];
    if (!ros_trace_compile_status() || pipe(pipes) != 0)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (getenv("WAITS") && getchar() != '\n')
        ;
    pid_t listener = fork();
    if (listener == 0) {
        close(pipes[1]);
        listen_to(pipes[0], cause);
        return 0;
    }
    close(pipes[0]);
    talk(pipes[1], messages, period_us);
    int status = 1;
    return waitpid(listener, &status, 0) == listener ? WEXITSTATUS(status) : 1;
}
