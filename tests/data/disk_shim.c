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
 * for writing cannot be remounted read-only from outside (EBUSY); the kernel does it
 * by itself after an error of the disk, and this is what that looks like.
 *
 * With DISK_SHIM_PLATTER, a folder, it also keeps there what a power cut would leave,
 * by the letter of POSIX: of a file the contents of its last fsync or fdatasync
 * (file-KEY), of a folder the names of its last fsync (dir-KEY, a line "KEY name"
 * each). Everything else was in the page cache alone. KEY is inode and birth of a
 * file, so that an inode used again is another file. sync_file_range() promises
 * nothing and leaves nothing there. What a sync leaves is there as a whole or, where
 * the process was killed meanwhile, not at all.
 */
#define _GNU_SOURCE
#include <dirent.h>
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

/* The name of a file or folder on the platter. */
static int key(int folder, const char *name, int flags, char *text, size_t room, int *is_dir)
{
    struct statx facts;
    if (statx(folder, name, flags | AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_INO | STATX_BTIME,
              &facts) != 0)
        return -1;
    *is_dir = S_ISDIR(facts.stx_mode);
    snprintf(text, room, "%s-%llu-%lld-%u", *is_dir ? "dir" : "file",
             (unsigned long long)facts.stx_ino, (long long)facts.stx_btime.tv_sec,
             facts.stx_btime.tv_nsec);
    return 0;
}

/* What the folder holds now, as lines. */
static void put_names(int folder, int out)
{
    int again = (int)syscall(SYS_openat, folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = again >= 0 ? fdopendir(again) : NULL;
    for (struct dirent *one; names && (one = readdir(names));) {
        char text[96];
        int is_dir;
        if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0 ||
            (one->d_type != DT_REG && one->d_type != DT_DIR) ||
            key(folder, one->d_name, 0, text, sizeof text, &is_dir) != 0)
            continue;
        dprintf(out, "%s %s\n", text, one->d_name);
    }
    if (names)
        closedir(names);
}

static void put_contents(int file, int out)
{
    char path[64], block[65536];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    /* Opened again: the descriptor may be for writing alone. */
    int again = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    ssize_t got;
    while (again >= 0 && (got = read(again, block, sizeof block)) > 0)
        for (ssize_t at = 0, put; at < got; at += put)
            if ((put = (ssize_t)syscall(SYS_write, out, block + at, got - at)) <= 0)
                abort();
    if (again >= 0)
        syscall(SYS_close, again);
}

/* A sync has come back: this much a power cut does not take any more. */
static void reach_platter(int file)
{
    const char *platter = getenv("DISK_SHIM_PLATTER");
    char text[96], beside[4096], path[4096];
    int is_dir, saved = errno;
    if (!platter || !is_file_below(file) ||
        key(file, "", AT_EMPTY_PATH, text, sizeof text, &is_dir) != 0)
        return;
    snprintf(beside, sizeof beside, "%s/new-%ld-%s", platter, syscall(SYS_gettid), text);
    snprintf(path, sizeof path, "%s/%s", platter, text);
    int out = (int)syscall(SYS_openat, AT_FDCWD, beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                           0600);
    if (out < 0)
        abort();
    if (is_dir)
        put_names(file, out);
    else
        put_contents(file, out);
    syscall(SYS_close, out);
    if (REAL(rename)(beside, path) != 0)
        abort();
    errno = saved;
}

int fdatasync(int file)
{
    if (synced(file) || REAL(fdatasync)(file) != 0)
        return -1;
    reach_platter(file);
    return 0;
}

int fsync(int file)
{
    if (synced(file) || REAL(fsync)(file) != 0)
        return -1;
    reach_platter(file);
    return 0;
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
