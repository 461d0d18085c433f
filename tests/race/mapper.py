"""Adds blocks to files through shared mappings whose descriptor is closed before the store.

One request a line on standard input, {"file", "text", "gap"}, the gap in milliseconds; "ok 0" when the
block stands there.
The mmap module keeps a descriptor of its own open, so the C library is called.
"""

import ctypes
import json
import os
import sys
import time

PROT_READ_WRITE = 3
MAP_SHARED = 1
FAILED = ctypes.c_void_p(-1).value

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

for line in sys.stdin:
    request = json.loads(line)
    text = request["text"].encode()
    fd = os.open(request["file"], os.O_RDWR)
    old = os.fstat(fd).st_size
    size = old + len(text)
    os.ftruncate(fd, size)
    address = libc.mmap(None, size, PROT_READ_WRITE, MAP_SHARED, fd, 0)
    if address == FAILED:
        sys.exit("mmap: " + os.strerror(ctypes.get_errno()))
    os.close(fd)
    time.sleep(request["gap"] / 1000)
    ctypes.memmove(address + old, text, len(text))
    libc.munmap(address, size)
    print("ok 0", flush=True)
