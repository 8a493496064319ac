/* A thread that is not the first of its process runs "sleep 0.05" by execveat(), and goes on as the process. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

static void *other(void *unused)
{
	for (;;)
		usleep(1000);
	return unused;
}

static void *execs(void *unused)
{
	char *arguments[] = {"sleep", "0.05", NULL};
	usleep(5000);
	int file = open("/bin/sleep", O_RDONLY);
	syscall(SYS_execveat, file, "", arguments, environ, AT_EMPTY_PATH);
	_exit(1);
	return unused;
}

int main(void)
{
	pthread_t thread;
	pthread_create(&thread, NULL, other, NULL);
	pthread_create(&thread, NULL, execs, NULL);
	pthread_join(thread, NULL);
	return 1;
}
