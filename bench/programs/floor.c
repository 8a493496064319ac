/*
 * floor: attaches a program that does nothing, or reads the clock, to each of these raw tracepoints, and prints "ready":
 * the least that any tracer by eBPF costs. Arguments: "clock" or "nothing", and the tracepoints.
 */
#include "bench.h"

#include <linux/bpf.h>
#include <sys/syscall.h>

static int bpf(int command, union bpf_attr *attributes)
{
    long result = syscall(SYS_bpf, command, attributes, sizeof *attributes);

    must("bpf", result < 0 ? errno : 0);
    return (int)result;
}

int main(int argc, char **argv)
{
    struct bpf_insn program[] = {
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_ktime_get_ns},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    int first = argc > 1 && strcmp(argv[1], "clock") == 0 ? 0 : 1;

    for (int i = 2; i < argc; i++) {
        union bpf_attr load, open;

        memset(&load, 0, sizeof load);
        load.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT;
        load.insns = (uintptr_t)(program + first);
        load.insn_cnt = (unsigned)(3 - first);
        load.license = (uintptr_t) "GPL";
        memset(&open, 0, sizeof open);
        open.raw_tracepoint.name = (uintptr_t)argv[i];
        open.raw_tracepoint.prog_fd = (unsigned)bpf(BPF_PROG_LOAD, &load);
        bpf(BPF_RAW_TRACEPOINT_OPEN, &open);
    }
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
