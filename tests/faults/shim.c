/* Lets the nth call of one kind on files below a directory fail, in a program that was started with
   LD_PRELOAD. The variables:

   FAULT_CALL   open, pread64, pwrite64, ftruncate64, fdatasync or fsync
   FAULT_BELOW  the beginning of the paths
   FAULT_SKIP   how many such calls succeed before
   FAULT_COUNT  how many fail, in all processes together
   FAULT_ERRNO  the error; for pwrite64 also 0: half of the bytes are written, and the process is gone;
                -1: half of them are written, and the call says so; -2: none are, and the call says all;
                -3: there is no space, so only calls that make the file longer count, and fail
   FAULT_LOG    gets one byte for each call that failed */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int calls;

static int number(const char *name) {
  const char *text = getenv(name);
  return text ? atoi(text) : 0;
}

/* Whether this call fails. */
static int fails(const char *call, int fd) {
  const char *wanted = getenv("FAULT_CALL"), *below = getenv("FAULT_BELOW");
  if (!wanted || !below || strcmp(wanted, call) != 0) return 0;
  int before = errno;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  errno = before;
  if (length < 0) return 0;
  path[length] = 0;
  if (strncmp(path, below, strlen(below)) != 0) return 0;
  if (atomic_fetch_add(&calls, 1) < number("FAULT_SKIP")) return 0;
  int log = open(getenv("FAULT_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) abort();
  int is_due = lseek(log, 0, SEEK_END) < number("FAULT_COUNT");
  if (is_due && write(log, "x", 1) != 1) abort();
  close(log);
  errno = before;
  return is_due;
}

#define FAILING(type, call, parameters, arguments)          \
  type call parameters {                                    \
    static type(*real) parameters;                          \
    if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #call); \
    if (fails(#call, fd)) {                                 \
      errno = number("FAULT_ERRNO");                        \
      return -1;                                            \
    }                                                       \
    return real arguments;                                  \
  }

FAILING(ssize_t, pread64, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at))
FAILING(int, ftruncate64, (int fd, off64_t length), (fd, length))
FAILING(int, fdatasync, (int fd), (fd))
FAILING(int, fsync, (int fd), (fd))

/* A file is known by its descriptor, so it is opened, and closed again where that was to fail. */
#define OPENING(call)                                                  \
  int call(const char *path, int flags, ...) {                         \
    static int (*real)(const char *, int, ...);                        \
    if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #call); \
    va_list more;                                                      \
    va_start(more, flags);                                             \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more);                                                      \
    int fd = real(path, flags, mode);                                  \
    if (fd < 0 || !fails("open", fd)) return fd;                       \
    close(fd);                                                         \
    errno = number("FAULT_ERRNO");                                     \
    return -1;                                                         \
  }

OPENING(open)
OPENING(open64)

ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at) {
  static ssize_t (*real)(int, const void *, size_t, off64_t);
  if (!real) real = (ssize_t(*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
  int how = number("FAULT_ERRNO");
  struct stat found;
  int fits = how == -3 && fstat(fd, &found) == 0 && at + (off64_t)n <= found.st_size;
  if (fits || !fails("pwrite64", fd)) return real(fd, from, n, at);
  if (how == -3) how = ENOSPC;
  if (how == -2) return n;
  if (how == -1) return real(fd, from, n > 1 ? n / 2 : n, at);
  errno = how;
  if (how != 0) return -1;
  if (real(fd, from, n / 2, at) < 0) abort();
  _exit(137);
}
