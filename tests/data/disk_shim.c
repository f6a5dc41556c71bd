/*
 * Stands between a process and its disk (LD_PRELOAD). DISK_SHIM_FILE names a file
 * with one word that says how the files below DISK_SHIM_BELOW behave:
 *
 *   hang    a sync does not come back as long as the file says so
 *   EROFS   every change is refused: mounted read-only
 *   EIO     every change fails
 *
 * Without the file everything is the kernel's own. It is read at each call, so
 * that a test can change it while the process runs. A file system with files open
 * for writing cannot be remounted read-only from outside; the kernel does it by
 * itself after an error of the disk, and this is what that looks like.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* What the file says; "" without one. */
static void word(char *text, size_t room)
{
    const char *path = getenv("DISK_SHIM_FILE");
    int saved = errno;
    ssize_t got = 0;
    int file = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        got = read(file, text, room - 1);
        syscall(SYS_close, file);
    }
    errno = saved;
    text[got > 0 ? got : 0] = 0;
    text[strcspn(text, "\n")] = 0;
}

static int is_below(const char *path)
{
    const char *folder = getenv("DISK_SHIM_BELOW");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_file_below(int file)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return 0;
    path[length] = 0;
    return is_below(path);
}

/* Whether a change must fail; errno then says how. */
static int refused(void)
{
    char text[16];
    word(text, sizeof text);
    if (strcmp(text, "EROFS") == 0)
        return errno = EROFS, 1;
    if (strcmp(text, "EIO") == 0)
        return errno = EIO, 1;
    return 0;
}

static int synced(int file)
{
    char text[16];
    if (!is_file_below(file))
        return 0;
    for (word(text, sizeof text); strcmp(text, "hang") == 0; word(text, sizeof text))
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return refused();
}

int fdatasync(int file)
{
    return synced(file) ? -1 : REAL(fdatasync)(file);
}

int fsync(int file)
{
    return synced(file) ? -1 : REAL(fsync)(file);
}

int sync_file_range(int file, off64_t from, off64_t count, unsigned flags)
{
    return is_file_below(file) && refused() ? -1
                                            : REAL(sync_file_range)(file, from, count, flags);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at)
{
    return is_file_below(file) && refused() ? -1 : REAL(pwrite64)(file, bytes, count, at);
}

ssize_t write(int file, const void *bytes, size_t count)
{
    return is_file_below(file) && refused() ? -1 : (ssize_t)syscall(SYS_write, file, bytes, count);
}

int ftruncate64(int file, off64_t length)
{
    return is_file_below(file) && refused() ? -1 : REAL(ftruncate64)(file, length);
}

int fallocate64(int file, int mode, off64_t from, off64_t count)
{
    return is_file_below(file) && refused() ? -1 : REAL(fallocate64)(file, mode, from, count);
}

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    int is_change = flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC);
    if (is_change && is_below(path) && refused())
        return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int mkdir(const char *path, mode_t mode)
{
    return is_below(path) && refused() ? -1 : REAL(mkdir)(path, mode);
}

int rename(const char *from, const char *to)
{
    return is_below(from) && refused() ? -1 : REAL(rename)(from, to);
}

int unlink(const char *path)
{
    return is_below(path) && refused() ? -1 : REAL(unlink)(path);
}

int unlinkat(int folder, const char *path, int flags)
{
    return is_file_below(folder) && refused() ? -1 : REAL(unlinkat)(folder, path, flags);
}

int rmdir(const char *path)
{
    return is_below(path) && refused() ? -1 : REAL(rmdir)(path);
}
