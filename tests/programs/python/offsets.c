/* Prints the offsets of the fields of a version of CPython, as its headers have them: those that
   tracer-user has in a table, or reads from the interpreter (tracer-user/binary/src/python). */

#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#include <stddef.h>
#include <stdio.h>
#if PY_VERSION_HEX >= 0x030b0000
#include "internal/pycore_frame.h"
#endif
#if PY_VERSION_HEX >= 0x03090000
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#else
#include "internal/pycore_pystate.h"
#endif

#define NONE 0xffff
#define SAY(name, value) printf(#name " %ld\n", (long) (value))
#define OF_FRAME(field) offsetof(FRAME, field)

int main(void) {
    SAY(minor, PY_MINOR_VERSION);
    SAY(interpreters, offsetof(_PyRuntimeState, interpreters.head));
    SAY(interpreter_next, offsetof(PyInterpreterState, next));
    SAY(thread_next, offsetof(PyThreadState, next));
    SAY(thread_interpreter, offsetof(PyThreadState, interp));
    SAY(thread_id, offsetof(PyThreadState, thread_id));
    SAY(text_ascii, sizeof(PyASCIIObject));
    SAY(text_wide, sizeof(PyCompactUnicodeObject));
    SAY(text_length, offsetof(PyASCIIObject, length));
    SAY(text_hash, offsetof(PyASCIIObject, hash));
    SAY(text_state, offsetof(PyASCIIObject, state));
    SAY(bytes, offsetof(PyBytesObject, ob_sval));
    SAY(code_file, offsetof(PyCodeObject, co_filename));
    SAY(code_first_line, offsetof(PyCodeObject, co_firstlineno));
#if PY_VERSION_HEX >= 0x030a0000
    SAY(code_lines, offsetof(PyCodeObject, co_linetable));
#else
    SAY(code_lines, offsetof(PyCodeObject, co_lnotab));
#endif
#if PY_VERSION_HEX >= 0x030b0000
    SAY(interpreter_threads, offsetof(PyInterpreterState, threads.head));
    SAY(code_name, offsetof(PyCodeObject, co_qualname));
    SAY(code_instructions, offsetof(PyCodeObject, co_code_adaptive));
#define FRAME _PyInterpreterFrame
    SAY(frame_previous, OF_FRAME(previous));
#else
    SAY(interpreter_threads, offsetof(PyInterpreterState, tstate_head));
    SAY(code_name, offsetof(PyCodeObject, co_name));
    SAY(code_instructions, NONE);
#define FRAME PyFrameObject
    SAY(frame_previous, OF_FRAME(f_back));
    SAY(frame_code, OF_FRAME(f_code));
    SAY(frame_instruction, OF_FRAME(f_lasti));
    SAY(frame_owner, NONE);
    SAY(thread_frame, offsetof(PyThreadState, frame));
    SAY(c_frame, NONE);
#endif
#if PY_VERSION_HEX >= 0x030d0000
    SAY(frame_code, OF_FRAME(f_executable));
    SAY(frame_instruction, OF_FRAME(instr_ptr));
    SAY(thread_frame, offsetof(PyThreadState, current_frame));
    SAY(c_frame, NONE);
#elif PY_VERSION_HEX >= 0x030b0000
    SAY(frame_code, OF_FRAME(f_code));
    SAY(frame_instruction, OF_FRAME(prev_instr));
    SAY(thread_frame, offsetof(PyThreadState, cframe));
    SAY(c_frame, offsetof(_PyCFrame, current_frame));
#endif
#if PY_VERSION_HEX >= 0x030a0000 && PY_VERSION_HEX < 0x030d0000
    SAY(thread_c_frame, offsetof(PyThreadState, cframe));
#else
    SAY(thread_c_frame, NONE);
#endif
#if PY_VERSION_HEX >= 0x030c0000
    SAY(frame_owner, OF_FRAME(owner));
#if PY_VERSION_HEX >= 0x030e0000
    SAY(c_owner, FRAME_OWNED_BY_INTERPRETER);
#else
    SAY(c_owner, FRAME_OWNED_BY_CSTACK);
#endif
    SAY(code_version, offsetof(PyCodeObject, co_version));
#else
#if PY_VERSION_HEX >= 0x030b0000
    SAY(frame_owner, OF_FRAME(is_entry));
#endif
    SAY(c_owner, NONE);
    SAY(code_version, NONE);
#endif
    return 0;
}
