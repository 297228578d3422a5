# SPDX-License-Identifier: Apache-2.0
"""devrt for Python, as far as coexistence.py needs it: coexistence_lib.cc."""

import contextlib
import ctypes

_POINTER, _INT, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_U64, _I64 = ctypes.c_uint64, ctypes.c_int64

# Name: result, arguments.
_FUNCTIONS = {
    "error": (_TEXT,),
    "device_count": (_INT, _TEXT),
    "current": (_INT, _TEXT),
    "guard_new": (_POINTER, _TEXT, _INT),
    "guard_delete": (None, _POINTER),
    "stream_new": (_POINTER, _TEXT, _INT),
    "stream_adopt": (_POINTER, _TEXT, _INT, _POINTER),
    "stream_delete": (None, _POINTER),
    "stream_native": (_POINTER, _POINTER),
    "stream_query": (_INT, _POINTER),
    "stream_sync": (_INT, _POINTER),
    "stream_wait": (_INT, _POINTER, _POINTER),
    "flag_new": (_POINTER, _TEXT, _INT),
    "flag_delete": (None, _POINTER),
    "flag_wait_on": (_INT, _POINTER, _POINTER, _U64),
    "flag_set": (_INT, _POINTER),
    "alloc": (_POINTER, _TEXT, _INT, _U64),
    "free": (_INT, _TEXT, _INT, _POINTER),
    "fill": (_INT, _POINTER, _POINTER, _INT, _U64),
    "copy": (_INT, _POINTER, _POINTER, _POINTER, _U64),
    "read": (_INT, _POINTER, _POINTER, _POINTER, _U64),
    "free_bytes": (_I64, _TEXT, _INT),
    "device_of": (_INT, _POINTER),
}


class Error(Exception):
    """A status that was not OK."""


class Devrt:

    def __init__(self, library):
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(library, f"coexist_{name}")
            function.restype, function.argtypes = result, arguments
        self.library = library

    def last_error(self):
        return self.library.coexist_error().decode()

    def _call(self, name, *arguments):
        answer = getattr(self.library, f"coexist_{name}")(*(
            a.encode() if isinstance(a, str) else a for a in arguments))
        if _FUNCTIONS[name][0] is None:
            return None
        if answer is None or answer == -1:
            raise Error(self.last_error())
        return answer

    @contextlib.contextmanager
    def _owned(self, made, kind):
        try:
            yield made
        finally:
            self._call(f"{kind}_delete", made)

    def device_count(self, backend):
        return self._call("device_count", backend)

    def current(self, backend):
        return self._call("current", backend)

    def guard(self, backend, index):
        return self._owned(self._call("guard_new", backend, index), "guard")

    def stream(self, backend, index):
        return self._owned(self._call("stream_new", backend, index), "stream")

    @contextlib.contextmanager
    def adopted(self, backend, index, native):
        made = self._call("stream_adopt", backend, index, native)
        with self._owned(made, "stream") as stream:
            yield stream

    def native(self, stream):
        return self._call("stream_native", stream)

    def query(self, stream):
        return self._call("stream_query", stream) == 1

    def synchronize(self, stream):
        self._call("stream_sync", stream)

    def wait_for_stream(self, stream, other):
        self._call("stream_wait", stream, other)

    def flag(self, backend, index):
        return self._owned(self._call("flag_new", backend, index), "flag")

    def wait_for_flag(self, flag, stream, seconds):
        """The stream waits; for ever with 0."""
        self._call("flag_wait_on", flag, stream, int(seconds * 1e9))

    def set_flag(self, flag):
        self._call("flag_set", flag)

    @contextlib.contextmanager
    def block(self, backend, index, size):
        memory = self._call("alloc", backend, index, size)
        try:
            yield memory
        finally:
            self._call("free", backend, index, memory)

    def fill(self, stream, memory, value, size):
        self._call("fill", stream, memory, value, size)

    def copy(self, stream, target, source, size):
        self._call("copy", stream, target, source, size)

    def read(self, stream, memory, size):
        host = ctypes.create_string_buffer(size)
        self._call("read", stream, host, memory, size)
        return host.raw

    def free_bytes(self, backend, index):
        return self._call("free_bytes", backend, index)

    def device_of(self, memory):
        """None of what is no device's."""
        answer = self.library.coexist_device_of(memory)
        return None if answer == -1 else answer
