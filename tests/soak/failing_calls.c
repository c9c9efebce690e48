/* For LD_PRELOAD: the n-th call of one kind, upon files below one folder, fails with an error of choice.

   FAIL_CALL  open, read, write, sync, rename, mmap, memory (anonymous maps of 64 KiB or more), reserve
   FAIL_AT    the first call that fails, counted in each process from 1;  FAIL_FOR  how many fail, 1 unless given
   FAIL_ERRNO the error;  FAIL_UNDER  the folder;  FAIL_MARK  a file that is made when a call has failed */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long count;

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static int below(const char *path) {
    const char *folder = getenv("FAIL_UNDER");
    return path && folder && strstr(path, folder) != NULL;
}

static int file_below(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long size = syscall(SYS_readlink, link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return below(path);
}

static int fails(const char *call) {
    const char *wanted = getenv("FAIL_CALL");
    if (!wanted || strcmp(wanted, call)) return 0;
    long at = number("FAIL_AT", 1), now = atomic_fetch_add(&count, 1) + 1;
    if (now < at || now >= at + number("FAIL_FOR", 1)) return 0;
    const char *mark = getenv("FAIL_MARK");
    if (mark) {
        long fd = syscall(SYS_openat, AT_FDCWD, mark, O_CREAT | O_WRONLY, 0644);
        if (fd >= 0) syscall(SYS_close, fd);
    }
    errno = (int)number("FAIL_ERRNO", EIO);
    return 1;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = dlsym(RTLD_NEXT, name)

#define OPEN(function, name) \
    int function(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        return below(path) && fails("open") ? -1 : real(path, flags, mode); \
    }
OPEN(open, "open")
OPEN(open64, "open64")

#define OPENAT(function, name) \
    int function(int folder, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        return below(path) && fails("open") ? -1 : real(folder, path, flags, mode); \
    }
OPENAT(openat, "openat")
OPENAT(openat64, "openat64")

ssize_t read(int fd, void *data, size_t size) {
    REAL(ssize_t, "read", int, void *, size_t);
    return file_below(fd) && fails("read") ? -1 : real(fd, data, size);
}

#define PREAD(function, name) \
    ssize_t function(int fd, void *data, size_t size, off_t at) { \
        REAL(ssize_t, name, int, void *, size_t, off_t); \
        return file_below(fd) && fails("read") ? -1 : real(fd, data, size, at); \
    }
PREAD(pread, "pread")
PREAD(pread64, "pread64")

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return file_below(fd) && fails("write") ? -1 : real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count_of_parts) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    return file_below(fd) && fails("write") ? -1 : real(fd, parts, count_of_parts);
}

#define PWRITE(function, name) \
    ssize_t function(int fd, const void *data, size_t size, off_t at) { \
        REAL(ssize_t, name, int, const void *, size_t, off_t); \
        return file_below(fd) && fails("write") ? -1 : real(fd, data, size, at); \
    }
PWRITE(pwrite, "pwrite")
PWRITE(pwrite64, "pwrite64")

int fsync(int fd) {
    REAL(int, "fsync", int);
    return file_below(fd) && fails("sync") ? -1 : real(fd);
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    return below(to) && fails("rename") ? -1 : real(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    REAL(int, "renameat", int, const char *, int, const char *);
    return below(to) && fails("rename") ? -1 : real(from_folder, from, to_folder, to);
}

#define MMAP(function, name) \
    void *function(void *address, size_t size, int protection, int flags, int fd, off_t at) { \
        REAL(void *, name, void *, size_t, int, int, int, off_t); \
        int fail = fd >= 0 ? file_below(fd) && fails("mmap") : size >= 65536 && fails("memory"); \
        return fail ? MAP_FAILED : real(address, size, protection, flags, fd, at); \
    }
MMAP(mmap, "mmap")
MMAP(mmap64, "mmap64")

#define FALLOCATE(function, name) \
    int function(int fd, off_t at, off_t size) { \
        REAL(int, name, int, off_t, off_t); \
        return file_below(fd) && fails("reserve") ? errno : real(fd, at, size); \
    }
FALLOCATE(posix_fallocate, "posix_fallocate")
FALLOCATE(posix_fallocate64, "posix_fallocate64")
