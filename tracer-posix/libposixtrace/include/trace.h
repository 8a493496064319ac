/*
 * <trace.h>: the tracing option of IEEE 1003.1 for Linux.
 *
 * Link with -lposixtrace (pkg-config: posixtrace). Every function but posix_trace_event() and
 * posix_trace_eventid_equal() returns 0 or an error number, and leaves errno alone.
 *
 * The library prints nothing. With LINUX_TRACE_DEBUG=1 in the environment, it writes to descriptor 2 why a stream
 * cannot be made. Only calls that make a stream, read one or write its log, and posix_trace_prefault_np() and
 * posix_trace_prefault_size_np(), return ENOMEM. No call takes more than 8 KiB of stack.
 *
 * Names beside the standard's begin with LINUX_TRACE_, linux_ or __linux_trace_. LINUX_TRACE_NO_INLINE, defined before
 * this header is included, leaves only functions in it.
 *
 * The option macros of <unistd.h> and sysconf() describe the C library, which has no tracing. If a program defines
 * LINUX_TRACE_OPTIONS before it includes this header, both describe this library.
 */
#ifndef _TRACE_H
#define _TRACE_H

#include <sys/types.h>
#ifdef __GLIBC__
/* pthread_t and struct timespec, also where no feature macro asks for them, and nothing else. */
#include <bits/pthreadtypes.h>
#include <bits/types/struct_timespec.h>
#else
#include <time.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* C99's qualifier restrict; nothing in languages without it. */
#if defined(__cplusplus) || !defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L
#define __linux_trace_restrict
#else
#define __linux_trace_restrict restrict
#endif

/* Limits. The lengths do not count the terminating null; an array for an event's name has TRACE_EVENT_NAME_MAX + 1
 * characters, one for a stream's name or the version TRACE_NAME_MAX. */
#ifndef _POSIX_TRACE_NAME_MAX
#define _POSIX_TRACE_NAME_MAX 8
#endif
#ifndef _POSIX_TRACE_EVENT_NAME_MAX
#define _POSIX_TRACE_EVENT_NAME_MAX 30
#endif
#ifndef _POSIX_TRACE_SYS_MAX
#define _POSIX_TRACE_SYS_MAX 8
#endif
#ifndef _POSIX_TRACE_USER_EVENT_MAX
#define _POSIX_TRACE_USER_EVENT_MAX 32
#endif
#ifndef TRACE_NAME_MAX
#define TRACE_NAME_MAX 64
#endif
#ifndef TRACE_EVENT_NAME_MAX
#define TRACE_EVENT_NAME_MAX 64
#endif
#ifndef TRACE_SYS_MAX
#define TRACE_SYS_MAX 32
#endif
#ifndef TRACE_USER_EVENT_MAX
#define TRACE_USER_EVENT_MAX 1024
#endif

/* A stream. Valid only in the process that made it. */
typedef __UINT32_TYPE__ trace_id_t;

/* An event type. */
typedef __UINT32_TYPE__ trace_event_id_t;

/* A set of event types. Can be assigned, and copied out of an event's data. */
typedef struct {
    __UINT64_TYPE__ linux_words[20];
} trace_event_set_t;

/* The attributes of a stream. Owns no memory. */
typedef struct {
    __UINT64_TYPE__ linux_words[32];
} trace_attr_t;

struct posix_trace_event_info {
    trace_event_id_t posix_event_id;
    pid_t posix_pid;                /* 0: no process */
    void *posix_prog_address;       /* trace point, or system call */
    int posix_truncation_status;
    int linux_tid;                  /* the kernel's identifier of the thread; 0: none */
    struct timespec posix_timestamp; /* CLOCK_REALTIME */
    pthread_t posix_thread_id;      /* 0: no thread */
    int linux_cpu;                  /* -1: not known */
};

struct posix_trace_status_info {
    int posix_stream_status;
    int posix_stream_full_status;
    int posix_stream_overrun_status;
    int posix_stream_flush_status;
    int posix_stream_flush_error;
    int posix_log_overrun_status;
    int posix_log_full_status;
};

/* posix_stream_status */
#define POSIX_TRACE_RUNNING 1
#define POSIX_TRACE_SUSPENDED 2
/* posix_stream_full_status, posix_log_full_status */
#define POSIX_TRACE_NOT_FULL 0
#define POSIX_TRACE_FULL 1
/* posix_stream_overrun_status, posix_log_overrun_status */
#define POSIX_TRACE_NO_OVERRUN 0
#define POSIX_TRACE_OVERRUN 1
/* posix_stream_flush_status */
#define POSIX_TRACE_NOT_FLUSHING 0
#define POSIX_TRACE_FLUSHING 1
/* posix_truncation_status */
#define POSIX_TRACE_NOT_TRUNCATED 0
#define POSIX_TRACE_TRUNCATED_RECORD 1
#define POSIX_TRACE_TRUNCATED_READ 2
/* stream-full-policy, log-full-policy */
#define POSIX_TRACE_LOOP 1
#define POSIX_TRACE_UNTIL_FULL 2
#define POSIX_TRACE_FLUSH 3
#define POSIX_TRACE_APPEND 4
/* inheritance */
#define POSIX_TRACE_CLOSE_FOR_CHILD 1
#define POSIX_TRACE_INHERITED 2
/* posix_trace_eventset_fill() */
#define POSIX_TRACE_WOPID_EVENTS 1
#define POSIX_TRACE_SYSTEM_EVENTS 2
#define POSIX_TRACE_ALL_EVENTS 3
/* posix_trace_set_filter() */
#define POSIX_TRACE_SET_EVENTSET 1
#define POSIX_TRACE_ADD_EVENTSET 2
#define POSIX_TRACE_SUB_EVENTSET 3

/* Whether a stream gets the kernel's events too: as the environment says (LINUX_TRACE_KERNEL_EVENTS=1), no, yes. */
#define LINUX_TRACE_KERNEL_EVENTS_DEFAULT 0
#define LINUX_TRACE_KERNEL_EVENTS_OFF 1
#define LINUX_TRACE_KERNEL_EVENTS_ON 2

/* System event types of the standard. */
#define POSIX_TRACE_ERROR ((trace_event_id_t)1)
#define POSIX_TRACE_START ((trace_event_id_t)2)
#define POSIX_TRACE_STOP ((trace_event_id_t)3)
#define POSIX_TRACE_FILTER ((trace_event_id_t)4)
#define POSIX_TRACE_OVERFLOW ((trace_event_id_t)5)
#define POSIX_TRACE_RESUME ((trace_event_id_t)6)
#define POSIX_TRACE_FLUSH_START ((trace_event_id_t)7)
#define POSIX_TRACE_FLUSH_STOP ((trace_event_id_t)8)
/* The predefined user event type, in both spellings of the standard. */
#define POSIX_TRACE_UNNAMED_USEREVENT ((trace_event_id_t)256)
#define POSIX_TRACE_UNNAMED_USER_EVENT POSIX_TRACE_UNNAMED_USEREVENT

/* The compiler's own types: C++ before C++11 has no names for types of 64 bits. */
typedef __INT64_TYPE__ __linux_trace_i64;
typedef __UINT64_TYPE__ __linux_trace_u64;

/* System event types of this implementation: what the kernel does with the process. The data of a type is the struct
 * whose comment names the type, if there is one. Process and thread identifiers are those of the tracer's pid
 * namespace; 0: none there. The name of a thread ends with a null, unless it fills its array. */
/* From here on made by cargo xtask header, from tracer-common/src/kernel. */
/* a thread begins to wait for a lock, or for another futex (--locks) */
#define LINUX_TRACE_LOCK_WAIT ((trace_event_id_t)31)
#define LINUX_TRACE_FORK ((trace_event_id_t)32)            /* a process was created */
#define LINUX_TRACE_THREAD_CREATE ((trace_event_id_t)33)   /* a thread was created */
#define LINUX_TRACE_EXEC ((trace_event_id_t)34)            /* a process replaced its program */
#define LINUX_TRACE_EXIT ((trace_event_id_t)35)            /* a process ended */
#define LINUX_TRACE_THREAD_EXIT ((trace_event_id_t)36)     /* a thread ended and others of its process remain */
#define LINUX_TRACE_SWITCH_IN ((trace_event_id_t)37)       /* a thread got a CPU */
#define LINUX_TRACE_SWITCH_OUT ((trace_event_id_t)38)      /* a thread gave up its CPU, or lost it */
#define LINUX_TRACE_WAKEUP ((trace_event_id_t)39)          /* a thread became runnable */
#define LINUX_TRACE_RENAME ((trace_event_id_t)40)          /* a thread was given another name */
#define LINUX_TRACE_SIGNAL_GENERATE ((trace_event_id_t)41) /* a signal was sent */
#define LINUX_TRACE_SIGNAL_DELIVER ((trace_event_id_t)42)  /* a thread takes a signal */
#define LINUX_TRACE_SYSCALL_ENTER ((trace_event_id_t)43)   /* a thread entered a system call */
#define LINUX_TRACE_SYSCALL_EXIT ((trace_event_id_t)44)    /* a thread left a system call */
#define LINUX_TRACE_FAULT_USER ((trace_event_id_t)45)      /* a page fault of the program */
#define LINUX_TRACE_FAULT_KERNEL ((trace_event_id_t)46)    /* a page fault of the kernel while it served the thread */
#define LINUX_TRACE_MIGRATE ((trace_event_id_t)47)         /* a thread was moved to another CPU */
/* the kernel chose the process to be killed for want of memory */
#define LINUX_TRACE_OOM_KILL ((trace_event_id_t)54)
#define LINUX_TRACE_BLOCK_ISSUE ((trace_event_id_t)55)     /* a request went to a block device */
#define LINUX_TRACE_BLOCK_COMPLETE ((trace_event_id_t)56)  /* a block device completed a request */
#define LINUX_TRACE_CGROUP_ATTACH ((trace_event_id_t)57)   /* a process or thread changed its control group */
#define LINUX_TRACE_THREAD_STATE ((trace_event_id_t)58)    /* what a thread does when the trace begins */
/* a thread has to wait: a control group has used up its time */
#define LINUX_TRACE_THROTTLE ((trace_event_id_t)59)
#define LINUX_TRACE_STACK ((trace_event_id_t)60)           /* the functions that a thread was in (--stack) */
/* code of a file in the process's memory, for the names of stacks */
#define LINUX_TRACE_MAPPING ((trace_event_id_t)61)
#define LINUX_TRACE_SYMBOL ((trace_event_id_t)62)          /* the function at an address of a stack */
/* a thread was on a CPU when that was looked at (--sample) */
#define LINUX_TRACE_SAMPLE ((trace_event_id_t)63)
/* a thread works for another trace or span of OpenTelemetry (--trace-context) */
#define LINUX_TRACE_THREAD_CONTEXT ((trace_event_id_t)64)
/* What CPUs do for no process (POSIX_TRACE_WOPID_EVENTS). */
#define LINUX_TRACE_IRQ_ENTER ((trace_event_id_t)48)     /* a handler of a device's interrupt began */
#define LINUX_TRACE_IRQ_EXIT ((trace_event_id_t)49)      /* a handler of a device's interrupt ended */
#define LINUX_TRACE_SOFTIRQ_ENTER ((trace_event_id_t)50) /* a soft interrupt began */
#define LINUX_TRACE_SOFTIRQ_EXIT ((trace_event_id_t)51)  /* a soft interrupt ended */
#define LINUX_TRACE_IDLE_ENTER ((trace_event_id_t)52)    /* a CPU has nothing to do */
#define LINUX_TRACE_IDLE_EXIT ((trace_event_id_t)53)     /* a CPU has something to do again */

/* Data of LINUX_TRACE_LOCK_WAIT: comes right before the switch away of the thread. */
struct linux_trace_lock_wait {
    __linux_trace_u64 linux_address; /* The futex that it waits for. */
    /* The operation of futex(), with its flags. Of futex_wait() it is FUTEX_WAIT_BITSET. */
    unsigned linux_operation;
    unsigned linux_value;            /* The value that the word was to have. */
    unsigned linux_timed;            /* 1: the wait ends by itself after a time. */
    /* Parts of the memory that could be read: a bit for each sixteen bytes. None where that was too late. */
    unsigned linux_parts;
    /* The thread in its own pid namespace, by whose numbers locks name their owners; 0 where that is not known. */
    unsigned linux_own_tid;
    unsigned linux_reserved;         /* Zero. */
    /* Memory of the program, from sixteen bytes before the word on. The other parts are zero. The layouts of C
     * libraries say which type of lock it is, and which thread has it. */
    __linux_trace_u64 linux_memory[6];
};

/* Data of LINUX_TRACE_FORK and LINUX_TRACE_THREAD_CREATE. */
struct linux_trace_fork {
    unsigned linux_child_pid;    /* Process of the new thread. */
    unsigned linux_child_tid;    /* The new thread. */
    char linux_child_comm[16];   /* Its name. */
    unsigned linux_child_ns_pid; /* child_pid as the child itself sees it: in its own pid namespace. */
    unsigned linux_child_ns_tid; /* child_tid as the child itself sees it: in its own pid namespace. */
};

/* Data of LINUX_TRACE_EXEC. What the program was given follows the null of the file: a byte of bits (1: there is
 * more, 2: it could not be read, 4: 4 bytes follow that say how many are missing), and each argument, ended by a
 * null. */
struct linux_trace_exec {
    char linux_comm[16];    /* The name of the thread from now on. */
    unsigned linux_old_tid; /* The thread that called exec; it goes on under the process's identifier. */
    char linux_file[256];   /* The file as it was named to exec, ended by a null. What follows the null is removed. */
};

/* Data of LINUX_TRACE_EXIT and LINUX_TRACE_THREAD_EXIT. */
struct linux_trace_exit {
    int linux_status;      /* Status that was given to exit, 0 to 255. */
    unsigned linux_signal; /* The signal that ended the process, or 0. */
};

/* Data of LINUX_TRACE_SWITCH_IN. */
struct linux_trace_switch_in {
    unsigned linux_prev_pid;  /* Process that had the CPU before. */
    unsigned linux_prev_tid;  /* Thread that had the CPU before; 0 for the idle task. */
    char linux_prev_comm[16]; /* Its name. */
    /* Whether others had the CPU too while this thread waited for it: 0: not known, 1: the thread that is named here
     * had it all the time, 2: others had it before, 3: not known, since the kernel did not report the wake-up with
     * which the wait began. */
    unsigned linux_others;
    unsigned linux_reserved;  /* Zero. */
};

/* Data of LINUX_TRACE_SWITCH_OUT. */
struct linux_trace_switch_out {
    unsigned linux_next_pid;       /* Process that gets the CPU. */
    unsigned linux_next_tid;       /* Thread that gets the CPU; 0 for the idle task. */
    char linux_next_comm[16];      /* Its name. */
    unsigned linux_state;          /* The kernel's state bits of the thread that leaves (task_struct::__state). */
    unsigned char linux_preempted; /* 1: it was runnable and had to give way. */
    /* Context that a thread blocks in: 0: it does not block, or it is not known, 1: a system call, 2: one of a
     * 32-bit program, 3: a page fault or another exception, 4: its exit, 5: a thread of the kernel, in whatever it
     * does. And 128 where it waits for a device. Of a thread that has to give way, why: 6: its control group has
     * used up its time, 7: it has used up its budget (SCHED_DEADLINE), 8: real-time threads have used up the time
     * that they may have together, 9: to a thread of a higher real-time priority. */
    unsigned char linux_waits_in;
    unsigned short linux_syscall;  /* The number of that system call. */
    /* How long it had the CPU, in nanoseconds: from the switch to it to this one. 0: the switch to it was not seen. */
    __linux_trace_u64 linux_ran_ns;
};

/* Data of LINUX_TRACE_WAKEUP. */
struct linux_trace_wakeup {
    unsigned linux_target_cpu; /* CPU on whose run queue the thread was put. */
    unsigned linux_new_thread; /* 1: the thread never ran before. */
    /* Process that asked for the wake-up, where a thread or its packet did; 0 for the idle task, an interrupt, or
     * when it is not known. */
    unsigned linux_waker_pid;
    unsigned linux_waker_tid;  /* Its thread. */
    char linux_waker_comm[16]; /* The name of that thread; empty when no thread asked. */
    /* Context that asked: 0: not known, 1: a thread, 2: an interrupt, 3: a soft interrupt, 4: a high-resolution
     * timer, 5: another timer, 6: a soft interrupt that handed over a packet of the thread that is named, which
     * still had the CPU. */
    unsigned linux_waker_context;
    unsigned linux_reserved;   /* Zero. */
};

/* Data of LINUX_TRACE_RENAME. */
struct linux_trace_rename {
    char linux_comm[16]; /* The new name. */
};

/* Data of LINUX_TRACE_SIGNAL_GENERATE. The event is one of the caller where a traced process sends by a call such as
 * kill, and its program address is that of the call. Otherwise it is one of the target. */
struct linux_trace_signal_generate {
    unsigned linux_signal;      /* The signal. */
    int linux_code;             /* Why it was sent: si_code of siginfo_t. */
    unsigned linux_target_pid;  /* Process that it is sent to. */
    unsigned linux_target_tid;  /* Thread that it is sent to; of a signal to the process, the thread that was named. */
    char linux_target_comm[16]; /* The name of that thread. */
    unsigned linux_sender_pid;  /* Process that sent it by a call, or whose end it reports; 0 for the kernel itself. */
    unsigned linux_sender_tid;  /* Its thread. */
    unsigned linux_group;       /* 1: to the process; 0: to one thread. */
    /* 0: it is on its way; 1: the target ignores it; 2: it is pending already; 3: it is lost; 4: it is sent without
     * its siginfo_t. */
    unsigned linux_result;
};

/* Data of LINUX_TRACE_SIGNAL_DELIVER. The program address is where the program was interrupted. */
struct linux_trace_signal_deliver {
    unsigned linux_signal;         /* The signal. */
    int linux_code;                /* Why it was sent: si_code of siginfo_t. */
    /* The program's handler; 0 for what the kernel does by default (SIG_DFL), 1 for nothing (SIG_IGN). */
    __linux_trace_u64 linux_handler;
    __linux_trace_u64 linux_flags; /* sa_flags of the sigaction. */
    /* Of a fault, the address (si_addr), and of a call that a filter refused its own; 0 otherwise. */
    __linux_trace_u64 linux_address;
    __linux_trace_u64 linux_value; /* Of a signal with a value, that (si_value); 0 otherwise. */
    int linux_timer;               /* Of a timer, its identifier in the kernel (si_timerid); 0 otherwise. */
    int linux_overrun;             /* Of a timer, how often more it has expired (si_overrun); 0 otherwise. */
    /* Of a signal that a process sent by a call, or that reports a child, that process as the program is told
     * (si_pid): in its own pid namespace; 0 otherwise. */
    unsigned linux_si_pid;
    /* Of such a signal, the user of that process as the program is told (si_uid); 0 otherwise. */
    unsigned linux_si_uid;
    /* Of a signal that reports a child, its exit status, or the signal that ended, stopped or continued it
     * (si_status); 0 otherwise. */
    int linux_si_status;
    unsigned linux_reserved;       /* Zero. */
};

/* Data of LINUX_TRACE_SYSCALL_ENTER. The program address is that of the call. What the call was given in memory, as
 * far as it was read, follows: for each such argument its index from 0, a byte of bits (1: there is more of it, 2:
 * it could not be read, 4: bytes, and not text), 2 bytes that say how many follow, and these. An index of 64 and
 * more says what a descriptor is (--descriptors): that argument, 70 what the call returned, from 72 on those of a
 * list. */
struct linux_trace_syscall_enter {
    /* The system call number, in the table of the machine or in that for 32-bit programs. */
    int linux_number;
    unsigned linux_compat; /* 1: it is one of the table for 32-bit programs. */
    /* Values of the registers for arguments. The call determines how many of them count. */
    __linux_trace_u64 linux_args[6];
};

/* Data of LINUX_TRACE_SYSCALL_EXIT. The program address is where the program goes on. What the call has filled in,
 * and what could not be read on entry, follows as on entry. Where calls are recorded only as they end (--calls
 * exit), so does what it was given, as far as it is known then, and with the index 255 the values of the registers
 * for arguments. */
struct linux_trace_syscall_exit {
    /* As on entry. -1: the call has that system call number, or it is a return from a signal handler, of which the
     * kernel no longer knows, and whose entry was before the trace. */
    int linux_number;
    unsigned linux_compat;       /* As on entry. */
    __linux_trace_i64 linux_ret; /* Return value; -4095 to -1 are error numbers. */
};

/* Data of LINUX_TRACE_FAULT_USER, whose program address is that of the instruction, and of LINUX_TRACE_FAULT_KERNEL,
 * whose program address is that of the system call. */
struct linux_trace_fault {
    /* The address that was accessed; 0 where it is one of the kernel's own, which are not shown. */
    __linux_trace_u64 linux_address;
    unsigned linux_write;    /* 1: by a write. */
    unsigned linux_fetch;    /* 1: by the fetch of an instruction. */
    /* 1: a page is there and may not be accessed so, as when it is to be copied on write. */
    unsigned linux_protection;
    unsigned linux_reserved; /* Zero. */
};

/* Data of LINUX_TRACE_MIGRATE. */
struct linux_trace_migrate {
    unsigned linux_from_cpu; /* CPU that it leaves. */
    unsigned linux_to_cpu;   /* CPU on whose run queue it will be. */
};

/* Data of LINUX_TRACE_IRQ_ENTER. */
struct linux_trace_irq_enter {
    unsigned linux_irq;  /* Number of the interrupt, as in /proc/interrupts. */
    char linux_name[28]; /* Name of the handler, as there; ended by a null. */
};

/* Data of LINUX_TRACE_IRQ_EXIT. */
struct linux_trace_irq_exit {
    unsigned linux_irq;     /* Number of the interrupt. */
    unsigned linux_handled; /* 1: it was this handler's. */
};

/* Data of LINUX_TRACE_SOFTIRQ_ENTER and LINUX_TRACE_SOFTIRQ_EXIT. */
struct linux_trace_softirq {
    unsigned linux_vector;   /* Number of the soft interrupt: its row in /proc/softirqs, from 0. */
    unsigned linux_reserved; /* Zero. */
};

/* Data of LINUX_TRACE_IDLE_ENTER. */
struct linux_trace_idle {
    unsigned linux_state;    /* How deeply the CPU sleeps, as its driver counts it. */
    unsigned linux_reserved; /* Zero. */
};

/* Data of LINUX_TRACE_OOM_KILL. The event is one of the process that is to be killed. */
struct linux_trace_oom_kill {
    char linux_comm[16];     /* The name of its thread; empty before Linux 6.8, which does not have it. */
    unsigned linux_uid;      /* Its user, in the initial user namespace; 0 before Linux 6.8. */
    unsigned linux_reserved; /* Zero. */
};

/* Data of LINUX_TRACE_BLOCK_ISSUE. */
struct linux_trace_block_issue {
    unsigned linux_operation;       /* Operation,enum req_op of the kernel: 0 read, 1 write, 2 flush, 3 discard, ... */
    unsigned linux_major;           /* Major number of the device. */
    unsigned linux_minor;           /* Minor number of the device. */
    unsigned linux_bytes;           /* How much is asked for. */
    __linux_trace_u64 linux_sector; /* Where: in units of 512 bytes from the start of the device. */
};

/* Data of LINUX_TRACE_BLOCK_COMPLETE. */
struct linux_trace_block_complete {
    unsigned linux_operation;       /* Requested operation: enum req_op of the kernel. */
    unsigned linux_major;           /* Major number of the device. */
    unsigned linux_minor;           /* Minor number of the device. */
    unsigned linux_bytes;           /* How much was done. */
    __linux_trace_u64 linux_sector; /* Where: in units of 512 bytes from the start of the device. */
    /* 0: done; otherwise why not: the kernel's blk_status_t (an error number before 5.16). */
    int linux_status;
    unsigned linux_reserved;        /* Zero. */
};

/* Data of LINUX_TRACE_CGROUP_ATTACH. The event is one of the thread that was moved; of a process that was moved, its
 * first thread. */
struct linux_trace_cgroup_attach {
    __linux_trace_u64 linux_id;   /* The control group: the inode of its folder. */
    char linux_target_comm[16];   /* The name of the thread that was moved. */
    unsigned linux_target_pid;    /* Its process. */
    unsigned linux_target_tid;    /* The thread. */
    unsigned linux_whole_process; /* 1: its process was moved, with all threads; 0: it was moved alone. */
    unsigned linux_level;         /* How deep the control group is: 0 for the root. */
    unsigned linux_version;       /* Version of the hierarchy: 1 or 2. */
    unsigned linux_reserved;      /* Zero. */
    /* The path of the control group from its root, ended by a null. What follows the null is removed. */
    char linux_path[256];
};

/* Data of LINUX_TRACE_THREAD_STATE: what a thread did when the trace began. The program address is where its program
 * goes on, where it is in a system call. */
struct linux_trace_thread_state {
    /* The number of the system call that it is in, in the table of the machine or in that for 32-bit programs; -1:
     * it is in none, or that is not known. */
    int linux_number;
    unsigned linux_compat;        /* 1: it is one of the table for 32-bit programs. */
    /* Values of the registers for arguments. The call determines how many of them count. */
    __linux_trace_u64 linux_args[6];
    /* State of the thread: 0: not known, 1: it has a CPU, 2: it could run, 3: it waits for something else, 4: it was
     * stopped by a signal, 5: by its tracer. */
    unsigned linux_state;
    unsigned linux_kernel_state;  /* The kernel's state bits of the thread (task_struct::__state). */
    unsigned char linux_followed; /* 1: its switches are recorded from then on. */
    unsigned char linux_waits_in; /* Context that it waits in, as in LINUX_TRACE_SWITCH_OUT. */
    unsigned short linux_syscall; /* The number of that system call. */
    unsigned linux_reserved;      /* Zero. */
};

/* Data of LINUX_TRACE_THROTTLE: comes right before the switch away of the thread. */
struct linux_trace_throttle {
    /* The control group whose time is used up, the thread's or one that this is in: the inode of its folder. */
    __linux_trace_u64 linux_id;
    unsigned linux_level;    /* How deep the control group is: 0 for the root. */
    unsigned linux_reserved; /* Zero. */
    /* The path of the control group from its root, ended by a null. One that is too long begins with "...", and has
     * the innermost groups. What follows the null is removed. */
    char linux_path[256];
};

/* Data of LINUX_TRACE_STACK: the functions that the thread was in. The addresses follow, 64 bits each, the innermost
 * first: those of the kernel, then those of the program. Of these, one whose upper 16 bits are 0x5079 is no address
 * of memory: it stands for a line of a function of Python, whose name a LINUX_TRACE_SYMBOL has (--stack python). */
struct linux_trace_stack {
    /* The type of the event that it belongs to, which is the next one of the thread at that time; 0: it is an event
     * of its own. */
    unsigned linux_event_type;
    unsigned short linux_kernel_frames; /* Addresses of the kernel. */
    unsigned short linux_user_frames;   /* Addresses of the program. */
    /* For how long the thread has been blocked there, in nanoseconds; 0: it was not. */
    __linux_trace_u64 linux_off_cpu_ns;
    __linux_trace_u64 linux_sampled_ns; /* For how much time on a CPU it is a sample, in nanoseconds; 0: it is none. */
    /* The thread that is woken, where the stack is that of its waker; 0: it is no waker's. */
    unsigned linux_woken_tid;
    /* Why the addresses of the program end where they do: 0: not known; 1: the program, or the thread, begins there;
     * 2: what follows was not copied; 3: it is in code of which it is not known how it calls; 4: as many as were
     * asked for; 5: damaged; 7: it is in an interpreter of which it is not known where its frames are. */
    unsigned linux_ends;
};

/* Data of LINUX_TRACE_MAPPING: code that the process has mapped from a file. */
struct linux_trace_mapping {
    __linux_trace_u64 linux_start;       /* Where it begins. */
    __linux_trace_u64 linux_end;         /* The first address behind it. */
    __linux_trace_u64 linux_file_offset; /* Where in the file it begins. */
    char linux_build_id[20];             /* The build identifier of the file; zeroes where it has none. */
    unsigned linux_build_id_bytes;       /* Bytes of build_id. */
    /* The path of the file, as the process knows it; unmapped where there is no code any more. Behind its null the
     * inode of the file (64 bits), where it has no build identifier. */
    char linux_path[1024];
};

/* Data of LINUX_TRACE_SYMBOL: the function at an address that a stack has. */
struct linux_trace_symbol {
    __linux_trace_u64 linux_address; /* The address. */
    __linux_trace_u64 linux_offset;  /* Bytes from the beginning of the function to there. */
    /* The name of the function; none where it is unknown. Behind its null the time since which the name counts, in
     * nanoseconds (64 bits), where it does not count always; behind that, for code that a program has made, the line
     * in its source (32 bits) and that one's file. */
    char linux_name[1024];
};

/* Data of LINUX_TRACE_SAMPLE: a thread had a CPU when its clock was looked at (--sample). */
struct linux_trace_sample {
    __linux_trace_u64 linux_sampled_ns; /* For how much time on a CPU it counts, in nanoseconds. */
};

/* Data of LINUX_TRACE_THREAD_CONTEXT: the trace and the span of OpenTelemetry that the thread works for from now on;
 * zeroes: none, or it is not known. Of thread 0, it counts for all threads. */
struct linux_trace_thread_context {
    char linux_trace_id[16]; /* The identifier of the trace. */
    char linux_span_id[8];   /* The identifier of the span. */
    /* The route or the name of what the thread does for it, where the program says so in an attribute, ended by a
     * null; one that is too long is cut. What follows the null is removed. */
    char linux_route[64];
};
/* To here. */

/* Trace points. */
void posix_trace_event(trace_event_id_t, const void *__linux_trace_restrict, size_t);
#if defined(__GNUC__) && !defined(LINUX_TRACE_NO_INLINE)
/*
 * While the process is not traced, a call of posix_trace_event() only reads the word that this pointer points to. The
 * address of posix_trace_event is that of the library's function all the same. If the library is older than this
 * header, it has no such pointer (its address is null), and the call goes to the function.
 */
extern const volatile unsigned *__linux_trace_enabled __attribute__((__weak__));
extern void __linux_trace_event(trace_event_id_t, const void *__linux_trace_restrict,
                                size_t) __asm__("posix_trace_event");
extern __inline __attribute__((__gnu_inline__, __always_inline__, __artificial__)) void
posix_trace_event(trace_event_id_t __linux_trace_id, const void *__linux_trace_restrict __linux_trace_data,
                  size_t __linux_trace_length)
{
    if (__builtin_expect(&__linux_trace_enabled == 0 || *__linux_trace_enabled != 0, 0))
        __linux_trace_event(__linux_trace_id, __linux_trace_data, __linux_trace_length);
}
#endif
/*
 * Beside the standard: a span of a type begins and ends, on one thread. Spans may be nested. The calls record events of
 * two types, "NAME begin" and "NAME end", which the first call opens.
 */
void posix_trace_begin_np(trace_event_id_t, const void *__linux_trace_restrict, size_t);
void posix_trace_end_np(trace_event_id_t, const void *__linux_trace_restrict, size_t);
#if defined(__GNUC__) && !defined(LINUX_TRACE_NO_INLINE)
extern void __linux_trace_begin(trace_event_id_t, const void *__linux_trace_restrict,
                                size_t) __asm__("posix_trace_begin_np");
extern void __linux_trace_end(trace_event_id_t, const void *__linux_trace_restrict,
                              size_t) __asm__("posix_trace_end_np");
extern __inline __attribute__((__gnu_inline__, __always_inline__, __artificial__)) void
posix_trace_begin_np(trace_event_id_t __linux_trace_id, const void *__linux_trace_restrict __linux_trace_data,
                     size_t __linux_trace_length)
{
    if (__builtin_expect(&__linux_trace_enabled == 0 || *__linux_trace_enabled != 0, 0))
        __linux_trace_begin(__linux_trace_id, __linux_trace_data, __linux_trace_length);
}
extern __inline __attribute__((__gnu_inline__, __always_inline__, __artificial__)) void
posix_trace_end_np(trace_event_id_t __linux_trace_id, const void *__linux_trace_restrict __linux_trace_data,
                   size_t __linux_trace_length)
{
    if (__builtin_expect(&__linux_trace_enabled == 0 || *__linux_trace_enabled != 0, 0))
        __linux_trace_end(__linux_trace_id, __linux_trace_data, __linux_trace_length);
}
#endif
int posix_trace_eventid_open(const char *__linux_trace_restrict, trace_event_id_t *__linux_trace_restrict);
/*
 * Beside the standard, for real-time threads: prepares the calling thread and its process. From then on the thread
 * emits without a page fault and without a system call, from its first event on and also when a controller attaches.
 * This holds in all streams that live now, and in further streams of so many bytes together (posix_trace_prefault_np():
 * of 16 MiB). The process takes that memory, and 6 MiB. Returns 0 or ENOMEM. See docs/real-time.md.
 */
int posix_trace_prefault_np(void);
int posix_trace_prefault_size_np(size_t);

/* Attributes. */
int posix_trace_attr_init(trace_attr_t *);
int posix_trace_attr_destroy(trace_attr_t *);
int posix_trace_attr_getclockres(const trace_attr_t *, struct timespec *);
int posix_trace_attr_getcreatetime(const trace_attr_t *, struct timespec *);
int posix_trace_attr_getgenversion(const trace_attr_t *, char *);
int posix_trace_attr_getname(const trace_attr_t *, char *);
int posix_trace_attr_setname(trace_attr_t *, const char *);
int posix_trace_attr_getinherited(const trace_attr_t *__linux_trace_restrict, int *__linux_trace_restrict);
int posix_trace_attr_setinherited(trace_attr_t *, int);
int posix_trace_attr_getlogfullpolicy(const trace_attr_t *__linux_trace_restrict, int *__linux_trace_restrict);
int posix_trace_attr_setlogfullpolicy(trace_attr_t *, int);
int posix_trace_attr_getstreamfullpolicy(const trace_attr_t *__linux_trace_restrict, int *__linux_trace_restrict);
int posix_trace_attr_setstreamfullpolicy(trace_attr_t *, int);
int posix_trace_attr_getlogsize(const trace_attr_t *__linux_trace_restrict, size_t *__linux_trace_restrict);
int posix_trace_attr_setlogsize(trace_attr_t *, size_t);
int posix_trace_attr_getmaxdatasize(const trace_attr_t *__linux_trace_restrict, size_t *__linux_trace_restrict);
int posix_trace_attr_setmaxdatasize(trace_attr_t *, size_t);
int posix_trace_attr_getmaxsystemeventsize(const trace_attr_t *__linux_trace_restrict, size_t *__linux_trace_restrict);
int posix_trace_attr_getmaxusereventsize(const trace_attr_t *__linux_trace_restrict, size_t,
                                         size_t *__linux_trace_restrict);
int posix_trace_attr_getstreamsize(const trace_attr_t *__linux_trace_restrict, size_t *__linux_trace_restrict);
int posix_trace_attr_setstreamsize(trace_attr_t *, size_t);
int posix_trace_attr_getkernelevents_np(const trace_attr_t *__linux_trace_restrict, int *__linux_trace_restrict);
int posix_trace_attr_setkernelevents_np(trace_attr_t *, int);

/* Streams. */
int posix_trace_create(pid_t, const trace_attr_t *__linux_trace_restrict, trace_id_t *__linux_trace_restrict);
int posix_trace_start(trace_id_t);
int posix_trace_stop(trace_id_t);
int posix_trace_create_withlog(pid_t, const trace_attr_t *__linux_trace_restrict, int,
                               trace_id_t *__linux_trace_restrict);
int posix_trace_open(int, trace_id_t *);
int posix_trace_close(trace_id_t);
int posix_trace_rewind(trace_id_t);
int posix_trace_clear(trace_id_t);
int posix_trace_flush(trace_id_t);
int posix_trace_shutdown(trace_id_t);
int posix_trace_get_attr(trace_id_t, trace_attr_t *);
int posix_trace_get_status(trace_id_t, struct posix_trace_status_info *);

/* Event types. */
int posix_trace_trid_eventid_open(trace_id_t, const char *__linux_trace_restrict,
                                  trace_event_id_t *__linux_trace_restrict);
int posix_trace_eventid_equal(trace_id_t, trace_event_id_t, trace_event_id_t);
int posix_trace_eventid_get_name(trace_id_t, trace_event_id_t, char *);
int posix_trace_eventtypelist_getnext_id(trace_id_t, trace_event_id_t *__linux_trace_restrict,
                                         int *__linux_trace_restrict);
int posix_trace_eventtypelist_rewind(trace_id_t);

/* Event sets and the filter. */
int posix_trace_eventset_add(trace_event_id_t, trace_event_set_t *);
int posix_trace_eventset_del(trace_event_id_t, trace_event_set_t *);
int posix_trace_eventset_empty(trace_event_set_t *);
int posix_trace_eventset_fill(trace_event_set_t *, int);
int posix_trace_eventset_ismember(trace_event_id_t, const trace_event_set_t *__linux_trace_restrict,
                                  int *__linux_trace_restrict);
int posix_trace_get_filter(trace_id_t, trace_event_set_t *);
int posix_trace_set_filter(trace_id_t, const trace_event_set_t *, int);

/* Reading. */
int posix_trace_getnext_event(trace_id_t, struct posix_trace_event_info *__linux_trace_restrict,
                              void *__linux_trace_restrict, size_t, size_t *__linux_trace_restrict,
                              int *__linux_trace_restrict);
int posix_trace_timedgetnext_event(trace_id_t, struct posix_trace_event_info *__linux_trace_restrict,
                                   void *__linux_trace_restrict, size_t, size_t *__linux_trace_restrict,
                                   int *__linux_trace_restrict, const struct timespec *__linux_trace_restrict);
int posix_trace_trygetnext_event(trace_id_t, struct posix_trace_event_info *__linux_trace_restrict,
                                 void *__linux_trace_restrict, size_t, size_t *__linux_trace_restrict,
                                 int *__linux_trace_restrict);

#undef __linux_trace_restrict

#ifdef LINUX_TRACE_OPTIONS
#include <unistd.h>

#undef _POSIX_TRACE
#define _POSIX_TRACE 200809L
#undef _POSIX_TRACE_EVENT_FILTER
#define _POSIX_TRACE_EVENT_FILTER 200809L
#undef _POSIX_TRACE_INHERIT
#define _POSIX_TRACE_INHERIT 200809L
#undef _POSIX_TRACE_LOG
#define _POSIX_TRACE_LOG 200809L

/* sysconf(), except for the names that this library answers itself. */
static __inline__ long linux_trace_sysconf(int __linux_name)
{
    switch (__linux_name) {
    case _SC_TRACE:
        return _POSIX_TRACE;
    case _SC_TRACE_EVENT_FILTER:
        return _POSIX_TRACE_EVENT_FILTER;
    case _SC_TRACE_INHERIT:
        return _POSIX_TRACE_INHERIT;
    case _SC_TRACE_LOG:
        return _POSIX_TRACE_LOG;
#ifdef _SC_TRACE_NAME_MAX
    case _SC_TRACE_NAME_MAX:
        return TRACE_NAME_MAX;
    case _SC_TRACE_EVENT_NAME_MAX:
        return TRACE_EVENT_NAME_MAX;
    case _SC_TRACE_SYS_MAX:
        return TRACE_SYS_MAX;
    case _SC_TRACE_USER_EVENT_MAX:
        return TRACE_USER_EVENT_MAX;
#endif
    default:
        return sysconf(__linux_name);
    }
}
#define sysconf(linux_name) linux_trace_sysconf(linux_name)
#endif

#ifdef __cplusplus
}
#endif

#endif
