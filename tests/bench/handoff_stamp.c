// A job for handoff_local.sh: writes the time to FILE. With a second argument it first waits until somebody
// has opened that pipe for writing and closed it again.
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 2) return 64;
  const int begun = argc == 2;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (!begun) {
    const int pipe = open(argv[2], O_RDONLY | O_CLOEXEC);
    char byte;
    while (pipe >= 0 && read(pipe, &byte, 1) > 0) {
    }
  }
  FILE* const file = fopen(argv[1], "a");
  if (!file) return 70;
  if (!begun) clock_gettime(CLOCK_MONOTONIC, &now);
  fprintf(file, "%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
  return fclose(file) == 0 ? 0 : 70;
}
