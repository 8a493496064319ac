/* overloads: calls functions that have one name in C++, and prints how often it has called each of them. */
#include <cstdio>

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
