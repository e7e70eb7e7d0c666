/* Ends a process by SIGKILL before its n-th operation on files below a folder. Loaded by
   LD_PRELOAD; `kill_at(folder, n)` starts the count, `operations()` returns it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[4096];
static long at, count;

void kill_at(const char *path, long n) {
  strncpy(folder, path, sizeof folder - 1);
  at = n;
  count = 0;
}
long operations(void) { return count; }

static void tick(void) {
  if (++count == at) kill(getpid(), SIGKILL);
}
static void on_path(const char *path) {
  if (folder[0] && path && strncmp(path, folder, strlen(folder)) == 0) tick();
}
static void on_file(int fd) {
  char name[64], path[4096];
  if (!folder[0]) return;
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(name, path, sizeof path - 1);
  if (n > 0) path[n] = 0, on_path(path);
}
#define REAL(name) static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *b, size_t n) { REAL(write); on_file(fd); return real(fd, b, n); }
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t o) { REAL(pwrite64); on_file(fd); return real(fd, b, n, o); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t o) { REAL(pwrite); on_file(fd); return real(fd, b, n, o); }
int fsync(int fd) { REAL(fsync); on_file(fd); return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); on_file(fd); return real(fd); }
int ftruncate64(int fd, off64_t n) { REAL(ftruncate64); on_file(fd); return real(fd, n); }
int ftruncate(int fd, off_t n) { REAL(ftruncate); on_file(fd); return real(fd, n); }
int rename(const char *a, const char *b) { REAL(rename); on_path(b); return real(a, b); }
int link(const char *a, const char *b) { REAL(link); on_path(b); return real(a, b); }
int unlink(const char *a) { REAL(unlink); on_path(a); return real(a); }
int mkdir(const char *a, mode_t m) { REAL(mkdir); on_path(a); return real(a, m); }
int rmdir(const char *a) { REAL(rmdir); on_path(a); return real(a); }
int open64(const char *a, int flags, ...) {
  REAL(open64);
  va_list more;
  va_start(more, flags);
  mode_t mode = va_arg(more, int);
  va_end(more);
  if (flags & (O_CREAT | O_TRUNC)) on_path(a);
  return real(a, flags, mode);
}
