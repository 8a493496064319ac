/*
 * <trace.h>: the tracing option of IEEE 1003.1 for Linux.
 *
 * Link with -lposixtrace (pkg-config: posixtrace). The option macros of <unistd.h> and sysconf() speak for the C
 * library only; this header declares what libposixtrace has. Every function but posix_trace_event() and
 * posix_trace_eventid_equal() returns 0 or an error number, and leaves errno alone.
 *
 * Names beside the standard's begin with LINUX_TRACE_ or linux_.
 */
#ifndef _TRACE_H
#define _TRACE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#ifdef __GLIBC__
/* pthread_t and struct timespec, also where no feature macro asks <sys/types.h> and <time.h> for them. */
#include <bits/pthreadtypes.h>
#include <bits/types/struct_timespec.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The qualifier of C99, in each language that does not have it. */
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
#define TRACE_SYS_MAX 16
#endif
#ifndef TRACE_USER_EVENT_MAX
#define TRACE_USER_EVENT_MAX 1024
#endif

/* A stream. Valid only in the process that made it. */
typedef uint32_t trace_id_t;

/* An event type. */
typedef uint32_t trace_event_id_t;

/* A set of event types. Can be assigned, and copied out of an event's data. */
typedef struct {
    uint64_t linux_words[20];
} trace_event_set_t;

/* The attributes of a stream. Owns no memory. */
typedef struct {
    uint64_t linux_words[32];
} trace_attr_t;

struct posix_trace_event_info {
    trace_event_id_t posix_event_id;
    pid_t posix_pid;                /* 0: no process */
    void *posix_prog_address;       /* trace point, or system call */
    int posix_truncation_status;
    int linux_tid;                  /* the thread as the kernel numbers it; 0: none */
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

/* System event types of this implementation: what the kernel does with the process. The data of each is the struct
 * named beside it. Process and thread numbers are the kernel's, in its first pid namespace. */
#define LINUX_TRACE_FORK ((trace_event_id_t)32)          /* struct linux_trace_fork */
#define LINUX_TRACE_THREAD_CREATE ((trace_event_id_t)33) /* struct linux_trace_fork */
#define LINUX_TRACE_EXEC ((trace_event_id_t)34)          /* struct linux_trace_exec, its file cut after the null */
#define LINUX_TRACE_EXIT ((trace_event_id_t)35)          /* struct linux_trace_exit */
#define LINUX_TRACE_THREAD_EXIT ((trace_event_id_t)36)   /* struct linux_trace_exit */
#define LINUX_TRACE_SWITCH_IN ((trace_event_id_t)37)     /* struct linux_trace_switch_in */
#define LINUX_TRACE_SWITCH_OUT ((trace_event_id_t)38)    /* struct linux_trace_switch_out */
#define LINUX_TRACE_WAKEUP ((trace_event_id_t)39)        /* struct linux_trace_wakeup */
#define LINUX_TRACE_RENAME ((trace_event_id_t)40)        /* struct linux_trace_rename */

/* A process or a thread was created. */
struct linux_trace_fork {
    uint32_t child_pid;
    uint32_t child_tid;
    char child_comm[16]; /* thread name, ended by a null unless full */
};

/* A process replaced its program. */
struct linux_trace_exec {
    char comm[16];
    uint32_t old_tid; /* the thread that called exec */
    char file[256];   /* as it was named to exec */
};

/* A process, or a thread of one, ended. */
struct linux_trace_exit {
    int32_t status;  /* 0 to 255 */
    uint32_t signal; /* 0: none */
};

/* A thread got a CPU. */
struct linux_trace_switch_in {
    uint32_t prev_pid;
    uint32_t prev_tid; /* 0: the CPU was idle */
    char prev_comm[16];
};

/* A thread gave up its CPU, or lost it. */
struct linux_trace_switch_out {
    uint32_t next_pid;
    uint32_t next_tid; /* 0: the CPU is idle */
    char next_comm[16];
    uint32_t state;     /* the kernel's state bits of the thread */
    uint32_t preempted; /* 1: it was runnable and had to give way */
};

/* A thread became runnable. */
struct linux_trace_wakeup {
    uint32_t target_cpu;
    uint32_t new_thread; /* 1: it never ran before */
};

/* A thread was given another name. */
struct linux_trace_rename {
    char comm[16];
};

/* Trace points. */
void posix_trace_event(trace_event_id_t, const void *__linux_trace_restrict, size_t);
int posix_trace_eventid_open(const char *__linux_trace_restrict, trace_event_id_t *__linux_trace_restrict);

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

/* Streams. */
int posix_trace_create(pid_t, const trace_attr_t *__linux_trace_restrict, trace_id_t *__linux_trace_restrict);
int posix_trace_start(trace_id_t);
int posix_trace_stop(trace_id_t);
int posix_trace_clear(trace_id_t);
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

#ifdef __cplusplus
}
#endif

#endif
