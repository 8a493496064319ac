/* Three processes, one after the other, with one pid. Each is called otherwise, computes for 20 ms more than the one
 * before, and prints its name and for how long the kernel says that it ran, in nanoseconds. */
#define _GNU_SOURCE
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long ran(void)
{
	struct timespec time;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(void)
{
	const char *names[] = {"first", "second", "third"};
	pid_t pid = 0;
	for (int i = 0; i < 3; i++) {
		struct clone_args made = {.exit_signal = SIGCHLD};
		if (pid != 0) {
			made.set_tid = (unsigned long)&pid;
			made.set_tid_size = 1;
		}
		pid_t child = syscall(SYS_clone3, &made, sizeof made);
		if (child < 0)
			return 1;
		if (child == 0) {
			prctl(PR_SET_NAME, names[i]);
			while (ran() < 20000000 * (i + 1))
				;
			usleep(1000);
			dprintf(1, "%s %d %lld\n", names[i], getpid(), ran());
			_exit(0);
		}
		pid = child;
		if (waitpid(child, NULL, 0) != child)
			return 1;
		usleep(3000);
	}
	return 0;
}
