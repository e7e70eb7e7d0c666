/* Ends a process by SIGKILL before its n-th operation on files below a folder, or writes
   down all of them. Loaded by LD_PRELOAD; `kill_at(folder, n)` or `record(folder, log)`
   starts the count, `operations()` returns it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[4096];
static long at, count;
static int recorded = -1;

void kill_at(const char *path, long n) {
  strncpy(folder, path, sizeof folder - 1);
  at = n;
  count = 0;
}
void record(const char *path, const char *to) {
  recorded = syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  kill_at(path, 0);
}
long operations(void) { return count; }

static int under(const char *path) { return path && strncmp(path, folder, strlen(folder)) == 0; }

/* A line: name, path, other path, number, bytes of data; then the data. */
static void tick(const char *name, const char *path, const char *other, long number,
                 const void *data, size_t n) {
  char line[9000];
  if (!folder[0] || (!under(path) && !under(other))) return;
  if (++count == at) kill(getpid(), SIGKILL);
  if (recorded < 0) return;
  int m = snprintf(line, sizeof line, "%s\t%s\t%s\t%ld\t%zu\n", name, path, other, number, n);
  syscall(SYS_write, recorded, line, (size_t)m);
  if (n) syscall(SYS_write, recorded, data, n);
}
static void on_file(const char *op, int fd, long number, const void *data, size_t n) {
  char name[64], path[4096];
  if (!folder[0]) return;
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t m = readlink(name, path, sizeof path - 1);
  if (m > 0) path[m] = 0, tick(op, path, "", number, data, n);
}
/* A path that may begin at an open folder. */
static void on_path(const char *op, int fd, const char *path, long number) {
  char name[64], full[8300] = "";
  if (!folder[0] || !path) return;
  if (path[0] != '/' && fd >= 0) {
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t m = readlink(name, full, 4000);
    if (m < 0) m = 0;
    snprintf(full + m, sizeof full - m, "/%s", path);
    path = full;
  }
  tick(op, path, "", number, 0, 0);
}
#define REAL(name) static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define HERE lseek(fd, 0, SEEK_CUR)

ssize_t write(int fd, const void *b, size_t n) { REAL(write); on_file("write", fd, HERE, b, n); return real(fd, b, n); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) { REAL(pwrite64); on_file("write", fd, o, b, n); return real(fd, b, n, o); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { REAL(pwrite); on_file("write", fd, o, b, n); return real(fd, b, n, o); }
int fsync(int fd) { REAL(fsync); on_file("sync", fd, 0, 0, 0); return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); on_file("sync", fd, 0, 0, 0); return real(fd); }
int ftruncate64(int fd, off64_t n) { REAL(ftruncate64); on_file("size", fd, n, 0, 0); return real(fd, n); }
int ftruncate(int fd, off_t n) { REAL(ftruncate); on_file("size", fd, n, 0, 0); return real(fd, n); }
int rename(const char *a, const char *b) { REAL(rename); tick("rename", a, b, 0, 0, 0); return real(a, b); }
int link(const char *a, const char *b) { REAL(link); tick("link", a, b, 0, 0, 0); return real(a, b); }
int unlink(const char *a) { REAL(unlink); on_path("unlink", -1, a, 0); return real(a); }
int unlinkat(int fd, const char *a, int f) { REAL(unlinkat); on_path(f ? "rmdir" : "unlink", fd, a, 0); return real(fd, a, f); }
int mkdir(const char *a, mode_t m) { REAL(mkdir); on_path("mkdir", -1, a, 0); return real(a, m); }
int rmdir(const char *a) { REAL(rmdir); on_path("rmdir", -1, a, 0); return real(a); }
int open64(const char *a, int flags, ...) {
  REAL(open64);
  va_list more;
  va_start(more, flags);
  mode_t mode = va_arg(more, int);
  va_end(more);
  if (flags & (O_CREAT | O_TRUNC)) on_path("create", -1, a, (flags & O_TRUNC) != 0);
  return real(a, flags, mode);
}
