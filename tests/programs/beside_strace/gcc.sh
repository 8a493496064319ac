# A program, from its source to its end.
set -e
cat > h.c <<'X'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int c, char **v) { printf("hi %d %s\n", c, v[0]); return strlen(v[0]) == 0; }
X
gcc -O2 -Wall -c h.c -o h.o; gcc h.o -o h; ./h; gcc -E h.c; gcc -c x.c || true
