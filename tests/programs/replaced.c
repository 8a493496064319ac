/* replaced: calls a function every ten milliseconds, which makes one system call that nothing else makes, until it is
 * ended. */
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline)) static long work(void)
{
	return syscall(SYS_getppid) + 1;
}

int main(void)
{
	volatile long sum = 0;
	for (;;) {
		sum += work();
		usleep(10000);
	}
}
