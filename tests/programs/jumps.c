/* jumps COUNT: calls a function COUNT times, which every third time is left by a jump and not by a return. Prints how often
 * it was. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static jmp_buf back;

__attribute__((noinline)) static void leave(int nth)
{
	if (nth % 3 == 0)
		longjmp(back, 1);
	usleep(1000);
	/* So that it is left by a return of its own. */
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 1;
	volatile int jumps = 0;
	for (volatile int i = 0; i < count; i++) {
		if (setjmp(back))
			jumps++;
		else
			leave(i);
	}
	printf("%d\n", jumps);
	return 0;
}
