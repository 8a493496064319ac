/* born_in_group GROUP MOVED BORN: processes that end at once in a control group, whose folder is GROUP: so many that move
 * there, and so many that are made there. Each has a name of its own, and prints "pid name". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void ended(pid_t pid, const char *name)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		exit(1);
	printf("%d %s\n", pid, name);
}

static void moves(int procs, const char *name)
{
	if (prctl(PR_SET_NAME, name) || write(procs, "0", 1) != 1)
		_exit(2);
	_exit(0);
}

int main(int argc, char **argv)
{
	char name[16];

	if (argc < 4)
		return 1;
	int group = open(argv[1], O_PATH | O_DIRECTORY);
	int procs = openat(group, "cgroup.procs", O_WRONLY);
	if (group < 0 || procs < 0)
		return 1;
	for (int i = 0; i < atoi(argv[2]); i++) {
		snprintf(name, sizeof name, "move%d", i);
		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0)
			moves(procs, name);
		ended(pid, name);
	}
	for (int i = 0; i < atoi(argv[3]); i++) {
		struct clone_args how = {
			.flags = CLONE_INTO_CGROUP,
			.exit_signal = SIGCHLD,
			.cgroup = group,
		};
		/* A child has its parent's. */
		snprintf(name, sizeof name, "born%d", i);
		prctl(PR_SET_NAME, name);
		fflush(stdout);
		pid_t pid = (pid_t)syscall(SYS_clone3, &how, sizeof how);
		if (pid == 0)
			_exit(0);
		ended(pid, name);
	}
	return 0;
}
