// SPDX-License-Identifier: Apache-2.0
//
// CodePlaces: functions and lines of the process's code, for reports.
//
//   CodePlaces places;
//   for (const CodePlace& place : places.At(instruction)) {
//     text += place.Text();  // "train.cc:80", or "train+0x1234 (main)"
//   }
//
// Lines come from elfutils' libdw, which is loaded and not linked.  So the
// layer works where the library is missing: a place then has the offset in its
// module, which addr2line takes.  Nothing is fetched from another machine.
//
// Threads: any; each function takes the lock.  With libdw, after Load(), At()
// waits for no lock of the dynamic linker, so its caller may have a lock that a
// module's initialization takes.

#ifndef DEVRT_LAYERS_VALIDATE_CODE_PLACES_H_
#define DEVRT_LAYERS_VALIDATE_CODE_PLACES_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace devrt::race {

// A place in a function: of code, or of a program that an interpreter runs.
struct CodePlace {
  std::string function;  // "Trainer::epoch", no parameters; empty: unknown
  std::string file;      // without `folder`, "../train.cc"; empty: unknown
  int line = 0;
  std::string module;  // "train+0x1234"; empty for an interpreter's program
  // Where the compiler ran, "/home/me/build/".  Empty if that is unknown or
  // `file` is an absolute path.
  std::string folder = {};

  std::string Text() const;
};

// The program or a library.
struct CodeModule {
  const void* begin = nullptr;  // nullptr: the code is in no module
  uintptr_t bias = 0;           // how far its addresses are moved
  std::string_view name;  // "libdevrt.so.0"; valid while the module is loaded
};
CodeModule ModuleOf(const void* code);

class CodePlaces {
 public:
  // `library` is what to load for lines; tests name one that does not exist.
  explicit CodePlaces(const char* library = "libdw.so.1");
  ~CodePlaces();
  CodePlaces(const CodePlaces&) = delete;
  CodePlaces& operator=(const CodePlaces&) = delete;

  // Loads the library, which the first At() does otherwise.
  void Load();
  // The place of the instruction, and then the places of the calls that the
  // compiler has replaced by their functions' code, from the inside out.  Empty
  // for an address that is in no module.
  std::vector<CodePlace> At(const void* instruction);
  // Returns true while a call is under way (Validator::IsBusy).
  bool IsBusy() const;

 private:
  class Lines;  // libdw, with what it knows of the process

  const char* const library_;
  mutable std::mutex mutex_;
  bool is_loaded_ = false;
  std::unique_ptr<Lines> lines_;  // nullptr: there is no such library
  std::unordered_map<const void*, std::vector<CodePlace>> known_;
  uint64_t unloads_ = 0;  // of modules, when the places became known
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_CODE_PLACES_H_
