/* What a log does when it is full, is cleared or is damaged. */
#define _GNU_SOURCE
#include "logs.h"
#include <sys/stat.h>

static struct posix_trace_status_info status;

/* clause: log.loop log.full.loop log.overrun */
CASE(a_looping_log_keeps_the_newest_events)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_LOOP, 65536);
    int fd = new_file(), first, seen, sent;
    struct stat file;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    emit(0, 10);
    OK(posix_trace_flush(trid));
    CHECK_EQUAL(status_of(trid).posix_log_full_status, POSIX_TRACE_NOT_FULL);
    for (sent = 10; sent < 50010; sent += 1000) {
        emit(sent, sent + 1000);
        OK(posix_trace_flush(trid));
    }
    status = status_of(trid);
    CHECK_EQUAL(status.posix_log_full_status, POSIX_TRACE_FULL);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_OVERRUN);
    CHECK_EQUAL(status.posix_stream_status, POSIX_TRACE_RUNNING);
    status = status_of(trid);
    CHECK_EQUAL(status.posix_log_full_status, POSIX_TRACE_FULL);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_shutdown(trid));
    CHECK(fstat(fd, &file) == 0 && file.st_size <= 65536 + 16384);
    seen = sequence_in(opened(fd), &first);
    CHECK(first > 10 && seen > 1000);
    CHECK_EQUAL(first + seen, sent);
}

/* clause: log.until_full log.full.until_full log.full.stream log.overrun event.stop.auto */
CASE(a_log_until_full_keeps_the_oldest_and_ends_with_a_stop)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_UNTIL_FULL, 65536);
    int fd = new_file(), sent = 0, seen = 0, is_stopped = 0;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    do {
        emit(sent, sent + 500);
        sent += 500;
        OK(posix_trace_flush(trid));
        status = status_of(trid);
    } while (status.posix_log_full_status == POSIX_TRACE_NOT_FULL);
    CHECK_EQUAL(status.posix_stream_status, POSIX_TRACE_SUSPENDED);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_OVERRUN);
    OK(posix_trace_shutdown(trid));
    trid = opened(fd);
    NEXT(trid, POSIX_TRACE_START);
    for (;;) {
        OK(wait_next(trid));
        if (unavailable)
            break;
        CHECK(!is_stopped);
        if (info.posix_event_id == type) {
            CHECK_EQUAL(carried(), seen);
            seen++;
        } else if (info.posix_event_id == POSIX_TRACE_STOP) {
            CHECK(carried() != 0 && info.posix_pid == 0);
            is_stopped = 1;
        }
    }
    CHECK(is_stopped && seen > 1000 && seen < sent);
}

/* clause: log.full.stream */
CASE(what_is_emitted_once_the_log_is_full_is_no_overrun_of_the_stream)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_UNTIL_FULL, 65536);
    int sent = 0;
    trace_id_t trid = logged_of(new_file(), &attr);

    OK(posix_trace_start(trid));
    do {
        emit(sent, sent + 500);
        sent += 500;
        OK(posix_trace_flush(trid));
        status = status_of(trid);
        CHECK_EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    } while (status.posix_log_full_status == POSIX_TRACE_NOT_FULL);
    emit(sent, sent + 500000);
    sleep_ms(50);
    status = status_of(trid);
    CHECK_EQUAL(status.posix_stream_status, POSIX_TRACE_SUSPENDED);
    CHECK_EQUAL(status.posix_stream_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_shutdown(trid));
}

/* clause: log.append */
CASE(an_appending_log_has_no_limit)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_APPEND, 1);
    int fd = new_file(), first, sent;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    for (sent = 0; sent < 100000; sent += 1000) {
        emit(sent, sent + 1000);
        OK(posix_trace_flush(trid));
    }
    status = status_of(trid);
    CHECK_EQUAL(status.posix_log_full_status, POSIX_TRACE_NOT_FULL);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_shutdown(trid));
    CHECK_EQUAL(sequence_in(opened(fd), &first), sent);
}

/* clause: clear.log log.full.clear */
CASE(clearing_a_stream_begins_its_log_anew)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_UNTIL_FULL, 65536);
    int fd = new_file(), first, sent = 0;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    do {
        emit(sent, sent + 500);
        sent += 500;
        OK(posix_trace_flush(trid));
    } while (status_of(trid).posix_log_full_status == POSIX_TRACE_NOT_FULL);
    OK(posix_trace_clear(trid));
    status = status_of(trid);
    CHECK_EQUAL(status.posix_log_full_status, POSIX_TRACE_NOT_FULL);
    CHECK_EQUAL(status.posix_log_overrun_status, POSIX_TRACE_NO_OVERRUN);
    OK(posix_trace_start(trid));
    emit(7, 17);
    OK(posix_trace_shutdown(trid));
    trid = opened(fd);
    NEXT(trid, POSIX_TRACE_START);
    CHECK_EQUAL(sequence_in(trid, &first), 10);
    CHECK_EQUAL(first, 7);
}

/* clause: log.damaged */
CASE(a_log_that_was_truncated_gives_what_is_whole)
{
    trace_attr_t attr = log_attributes(POSIX_TRACE_APPEND, 0);
    int fd = new_file(), first, seen, sent;
    struct stat file;
    trace_id_t trid = logged_of(fd, &attr);

    OK(posix_trace_start(trid));
    for (sent = 0; sent < 10000; sent += 100) {
        emit(sent, sent + 100);
        OK(posix_trace_flush(trid));
    }
    OK(posix_trace_shutdown(trid));
    CHECK(fstat(fd, &file) == 0 && ftruncate(fd, file.st_size / 2) == 0);
    trid = opened(fd);
    seen = sequence_in(trid, &first);
    CHECK(first == 0 && seen > 1000 && seen < sent);
    CHECK_EQUAL(status_of(trid).posix_log_overrun_status, POSIX_TRACE_OVERRUN);
}
