/*
 * A function that is left in every way there is: by returning, by an exception that passes through it, by a jump out
 * of it, and while another stack is used. Says what it has computed, so that a run that was disturbed differs.
 */
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <ucontext.h>

static jmp_buf out;
static ucontext_t caller, routine;
/* Out of reach of the jumps. */
static long rounds, sum, thrown, jumped, switched;

extern "C" __attribute__((noinline)) long handle(long number)
{
    if (number % 10 == 9)
        throw std::runtime_error("bad request");
    if (number % 10 == 8)
        longjmp(out, 1);
    if (number % 10 == 7)
        swapcontext(&routine, &caller);
    asm volatile("" : "+r"(number));
    return number * 3;
}

static void other_stack()
{
    for (long number = 7;; number += 10)
        handle(number);
}

int main(int argc, char **argv)
{
    static char stack[1 << 16];

    rounds = argc > 1 ? atol(argv[1]) : 100000;
    getcontext(&routine);
    routine.uc_stack.ss_sp = stack;
    routine.uc_stack.ss_size = sizeof stack;
    makecontext(&routine, other_stack, 0);
    for (volatile long number = 0; number < rounds; number = number + 1) {
        if (number % 10 == 7) {
            swapcontext(&caller, &routine);
            switched++;
            continue;
        }
        if (setjmp(out) != 0) {
            jumped++;
            continue;
        }
        try {
            sum += handle(number);
        } catch (const std::exception &) {
            thrown++;
        }
    }
    printf("sum %ld thrown %ld jumped %ld switched %ld\n", sum, thrown, jumped, switched);
}
