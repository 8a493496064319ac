/* A program that says it has a CPython interpreter, and has in its memory whatever it likes: lists
   without an end, addresses that lead nowhere, sizes that no memory has. It says by how many calls
   it has tried them. Built as "python3-hostile", with its symbols exported. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* 3.11.7. */
uint64_t Py_Version = 0x030b07f0;
uint64_t PyCode_Type[64];
uint64_t PyUnicode_Type[64];
uint64_t _PyRuntime[64];

static uint64_t interpreter[64], state[64], c_frame[8], frames[2][64];
static _Alignas(16) uint64_t code[64];
static _Alignas(16) uint64_t text[256], lines[256];

static uint64_t at(void *of) { return (uint64_t) (uintptr_t) of; }

/* One that is right: two frames, of which each is the caller of the other one. */
static void make(void) {
    _PyRuntime[40 / 8] = at(interpreter);
    interpreter[16 / 8] = at(state);
    state[16 / 8] = at(interpreter);
    state[152 / 8] = (uint64_t) pthread_self();
    state[56 / 8] = at(c_frame);
    c_frame[1] = at(frames[0]);
    for (int i = 0; i < 2; i++) {
        frames[i][32 / 8] = at(code);
        frames[i][48 / 8] = at(frames[1 - i]);
        frames[i][56 / 8] = at(code) + 184;
    }
    code[1] = at(PyCode_Type);
    code[72 / 8] = 7;
    code[112 / 8] = code[128 / 8] = at(text);
    code[136 / 8] = at(lines);
    text[1] = at(PyUnicode_Type);
    text[2] = 4;
    text[3] = UINT64_MAX;
    /* One byte a character, compact, ASCII. */
    text[4] = 1 << 2 | 1 << 5 | 1 << 6;
    memcpy((char *) text + 48, "evil", 4);
    lines[2] = 4;
    memset((char *) lines + 32, 0x80, 4);
}

int main(void) {
    uint64_t *words[] = {&_PyRuntime[5], &interpreter[0], &interpreter[2], &state[1], &state[2],
                         &state[7],      &c_frame[1],     &frames[0][4],   &frames[0][6],
                         &frames[1][6],  &frames[0][7],   &frames[0][8],   &code[9],
                         &code[14],      &code[16],       &code[17],       &text[2],
                         &text[3],       &text[4],        &lines[2],       &lines[4]};
    uint64_t values[] = {0,
                         1,
                         8,
                         at(state),
                         at(interpreter),
                         at(frames[0]),
                         at(frames[1]),
                         at(code),
                         at(text),
                         at(text) + 3,
                         INT64_MAX,
                         UINT64_MAX,
                         0xffff888000000000,
                         0x7fffffffffff,
                         0x8000000000000000};
    printf("ready\n");
    fflush(stdout);
    getchar();
    int calls = 0;
    make();
    dup2(0, 600);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            make();
            uint64_t before = *words[i];
            *words[i] = values[j];
            dup2(0, 601);
            *words[i] = before;
            calls++;
        }
    make();
    dup2(0, 602);
    printf("calls %d\ndone\n", calls);
    fflush(stdout);
    return getchar() == -2;
}
