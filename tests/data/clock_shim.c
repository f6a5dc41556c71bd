/*
 * Stands between a process and its clocks (LD_PRELOAD), as one file says:
 *
 *   line 1   nanoseconds to be added to the wall clock
 *   line 2   what adjtimex answers: "rc status maxerror esterror offset freq
 *            tick tai", all decimal; or the name of an error: EPERM, ENOSYS
 *
 * The file is read at each call, so that a test can set the clock while the
 * process runs; whoever changes it writes another and renames that over it. All
 * clocks but CLOCK_REALTIME are the kernel's own. Without the file, or without
 * a line, everything is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000LL

/* 64-bit time on a 32-bit machine (-D_TIME_BITS=64) goes by names of its own,
 * which the compiler gives to what is defined here, and nobody to a string. */
#if defined(__USE_TIME_BITS64) && __TIMESIZE == 32
#define HAS_NAMES_OF_TIME64
#define CLOCK_GETTIME "__clock_gettime64"
#define ADJTIMEX "___adjtimex64"
#else
#define CLOCK_GETTIME "clock_gettime"
#define ADJTIMEX "adjtimex"
#endif

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_adjtimex)(struct timex *);
static long (*real_syscall)(long, ...);
static const char *path;

static void find(void)
{
    /* Last, so that whoever sees it set sees the others too. */
    if (__atomic_load_n(&real_clock_gettime, __ATOMIC_ACQUIRE))
        return;
    path = getenv("CLOCK_SHIM_FILE");
    real_adjtimex = (int (*)(struct timex *))dlsym(RTLD_NEXT, ADJTIMEX);
    real_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    void *found = dlsym(RTLD_NEXT, CLOCK_GETTIME);
    __atomic_store_n(&real_clock_gettime, (int (*)(clockid_t, struct timespec *))found,
                     __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void begin(void)
{
    find();
}

/* The file's text; its length, 0 when there is none. */
static size_t read_file(char *text, size_t room)
{
    int saved = errno;
    size_t length = 0;
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        ssize_t got = read(file, text, room - 1);
        length = got > 0 ? (size_t)got : 0;
        close(file);
    }
    text[length] = 0;
    errno = saved;
    return length;
}

static int now(struct timespec *out)
{
    char text[256];
    int code = real_clock_gettime(CLOCK_REALTIME, out);
    if (code != 0 || read_file(text, sizeof text) == 0)
        return code;
    long long ns = (long long)out->tv_sec * NS + out->tv_nsec + strtoll(text, NULL, 10);
    long long second = ns / NS, rest = ns % NS;
    if (rest < 0) {
        second -= 1;
        rest += NS;
    }
    out->tv_sec = (time_t)second;
    out->tv_nsec = (long)rest;
    return 0;
}

int clock_gettime(clockid_t id, struct timespec *out)
{
    find();
    return id == CLOCK_REALTIME ? now(out) : real_clock_gettime(id, out);
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec time;
    (void)zone;
    find();
    int code = now(&time);
    out->tv_sec = time.tv_sec;
    out->tv_usec = time.tv_nsec / 1000;
    return code;
}

time_t time(time_t *out)
{
    struct timespec time;
    find();
    now(&time);
    if (out)
        *out = time.tv_sec;
    return time.tv_sec;
}

int timespec_get(struct timespec *out, int base)
{
    find();
    return base == TIME_UTC && now(out) == 0 ? base : 0;
}

static int answer(struct timex *out)
{
    char text[256];
    char *line = read_file(text, sizeof text) ? strchr(text, '\n') : NULL;
    if (!line || !line[1])
        return real_adjtimex(out);
    line += 1;
    if (line[0] == 'E') {
        errno = strncmp(line, "ENOSYS", 6) == 0 ? ENOSYS : EPERM;
        return -1;
    }
    memset(out, 0, sizeof *out);
    int code = (int)strtol(line, &line, 10);
    out->status = (int)strtol(line, &line, 10);
    out->maxerror = strtol(line, &line, 10);
    out->esterror = strtol(line, &line, 10);
    out->offset = strtol(line, &line, 10);
    out->freq = strtol(line, &line, 10);
    out->tick = strtol(line, &line, 10);
    out->tai = (int)strtol(line, &line, 10);
    return code;
}

int adjtimex(struct timex *out)
{
    find();
    return answer(out);
}

/* There it is another name of adjtimex. */
#ifndef HAS_NAMES_OF_TIME64
int ntp_adjtime(struct timex *out)
{
    find();
    return answer(out);
}
#endif

int clock_adjtime(clockid_t id, struct timex *out)
{
    find();
    if (id == CLOCK_REALTIME)
        return answer(out);
    errno = EINVAL;
    return -1;
}

long syscall(long number, ...)
{
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    find();
    if (number == SYS_adjtimex)
        return answer((struct timex *)a[0]);
#ifdef SYS_clock_adjtime
    if (number == SYS_clock_adjtime && a[0] == CLOCK_REALTIME)
        return answer((struct timex *)a[1]);
#endif
    return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
