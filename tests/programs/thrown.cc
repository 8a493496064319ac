/*
 * Programs in C++ in whose functions probes are. Each is compiled with `-DPROGRAM_NAME`.
 */
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <ucontext.h>

#ifdef PROGRAM_overloads
/* overloads: calls functions that have one name in C++, and prints how often it has called each of them. */
namespace shop {
struct Basket {
	long sum = 0;
	__attribute__((noinline)) void add(int price);
	__attribute__((noinline)) void add(double price) const;
};
void Basket::add(int price) { sum = sum + price; }
void Basket::add(double price) const
{
	std::fflush(price < 0 ? stderr : stdout);
	/* So that it is left by a return of its own. */
	__asm__ volatile("");
}
} // namespace shop

int main()
{
	shop::Basket basket;
	for (volatile int i = 0; i < 5; i = i + 1)
		basket.add(i);
	for (volatile int i = 0; i < 3; i = i + 1)
		static_cast<const shop::Basket &>(basket).add(i * 1.5);
	std::printf("shop::Basket::add(int)\t5\nshop::Basket::add(double) const\t3\n");
	return 0;
}
#endif

#ifdef PROGRAM_unwinding
/*
 * A function that is left in every way there is: by returning, by an exception that passes through it, by a jump out
 * of it, and while another stack is used. Says what it has computed, so that a run that was disturbed differs.
 */
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
#endif
