// SPDX-License-Identifier: Apache-2.0
//
// Opens LIBRARY, which uses devrt, and closes it in the way that the second
// argument names.  Afterwards HELD, the file with devrt's code, must still be
// loaded.  The program itself is linked without devrt.
//
//   unload_program LIBRARY close|main_thread|thread_lives|fork|again HELD

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <string>
#include <thread>

namespace {

using Use = int (*)();

class Library {
 public:
  explicit Library(const char* path)
      : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) return;
    std::fprintf(stderr, "%s\n", dlerror());
    _exit(99);
  }
  void Call() const {
    const Use use = reinterpret_cast<Use>(dlsym(handle_, "devrt_test_use"));
    if (use == nullptr || use() != 0) _exit(98);
  }
  void Close() const {
    if (dlclose(handle_) != 0) _exit(97);
  }

 private:
  void* const handle_;
};

void Fork() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) _exit(96);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 95;
  const std::string way = argv[2];
  const Library library(argv[1]);
  if (way == "thread_lives") {
    // The thread ends after the library was closed, with all that it
    // registered for its end.
    std::promise<void> used;
    std::promise<void> closed;
    std::thread thread([&] {
      library.Call();
      used.set_value();
      closed.get_future().wait();
    });
    used.get_future().wait();
    library.Close();
    closed.set_value();
    thread.join();
  } else if (way == "main_thread") {
    library.Call();
    library.Close();
  } else {
    // With the thread goes the last that would keep the library.
    std::thread([&] { library.Call(); }).join();
    library.Close();
  }
  if (way == "fork") Fork();
  if (way == "again") {
    const Library again(argv[1]);
    again.Call();
    std::thread([&] { again.Call(); }).join();
  }
  // Threads of devrt's run in this file for ever.
  const char* const held = argv[3];
  if (dlopen(held, RTLD_LAZY | RTLD_NOLOAD) == nullptr) {
    std::fprintf(stderr, "%s was unloaded\n", held);
    _exit(94);
  }
  return 0;
}
