// SPDX-License-Identifier: Apache-2.0
//
// Reads the dynamic section and symbols of an ELF64 shared object through a
// file descriptor: nothing is mapped, nothing is run.  Every offset and count
// comes from the file and is checked against its size before use, so that a
// damaged or hostile file yields an error and nothing else.
//
//   absl::StatusOr<ElfFile> file = ElfFile::Parse(FileBytes(fd, size));
//   if (!file.ok()) return file.status();  // "truncated: 200 bytes"
//   std::string directories = file->RunPath().value_or("");

#ifndef DEVRT_RUNTIME_INTERNAL_ELF_FILE_H_
#define DEVRT_RUNTIME_INTERNAL_ELF_FILE_H_

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace devrt::internal {

// A file as bytes: an open descriptor or memory, neither of which it owns.
class FileBytes {
 public:
  FileBytes(int fd, uint64_t size) : fd_(fd), size_(size) {}
  explicit FileBytes(std::string_view memory)
      : memory_(memory.data()), size_(memory.size()) {}

  uint64_t size() const { return size_; }
  bool Contains(uint64_t offset, uint64_t length) const {
    return offset <= size_ && length <= size_ - offset;
  }
  // All of [offset, offset + length), or false.
  bool Read(uint64_t offset, void* to, uint64_t length) const;

  // Visits `count` records of type T, until `visit` returns false.  False when
  // they do not lie in the file.
  template <typename T>
  bool ForEach(uint64_t offset, uint64_t count,
               absl::FunctionRef<bool(const T&)> visit) const {
    if (count > size_ / sizeof(T) || !Contains(offset, count * sizeof(T))) {
      return false;
    }
    constexpr uint64_t kAtOnce = 4096 / sizeof(T);
    T records[kAtOnce];
    for (uint64_t i = 0; i < count; i += kAtOnce) {
      const uint64_t n = count - i < kAtOnce ? count - i : kAtOnce;
      if (!Read(offset + i * sizeof(T), records, n * sizeof(T))) return false;
      for (uint64_t k = 0; k < n; ++k) {
        if (!visit(records[k])) return true;
      }
    }
    return true;
  }

 private:
  int fd_ = -1;
  const char* memory_ = nullptr;
  uint64_t size_;
};

class ElfFile {
 public:
  // A shared object for this machine, or INVALID_ARGUMENT saying what it is
  // instead.  Texts do not name the file: the caller does.
  static absl::StatusOr<ElfFile> Parse(FileBytes bytes);

  // As much as can be read of what may be no shared object at all, or one for
  // another machine; `status` is what Parse says about it.  What could not be
  // read is empty.
  static ElfFile ParseAsFarAsPossible(FileBytes bytes, absl::Status* status);

  const FileBytes& bytes() const { return bytes_; }

  // "x86-64"; empty where the header could not be read.
  std::string Machine() const;

  // What the dynamic section says, nullopt where it says nothing.  No name may
  // be longer than kLongestName; one that is reads as nothing.
  static constexpr size_t kLongestName = 4095;
  std::optional<std::string> Soname() const { return Text(dynamic_.soname); }
  std::optional<std::string> RunPath() const { return Text(dynamic_.runpath); }
  // The older form, which dependencies inherit.
  std::optional<std::string> RPath() const { return Text(dynamic_.rpath); }
  // Visits the names of the libraries that the dynamic linker loads with it,
  // until `visit` returns false; nullopt for a name that cannot be read.
  void ForEachNeeded(
      absl::FunctionRef<bool(const std::optional<std::string>&)> visit) const;

  // The linker's build id as hexadecimal digits, or empty.
  std::string BuildId() const;

  // Visits the defined dynamic symbols that other libraries can see.
  absl::Status ForEachExport(
      absl::FunctionRef<void(const Elf64_Sym&)> visit) const;

  // Whether the symbol's name is `prefix` and something; that something, of at
  // most `longest` bytes.
  std::optional<std::string> NameAfter(const Elf64_Sym& symbol,
                                       const std::string& prefix,
                                       size_t longest) const;

  // The symbol's name, cut to `longest` bytes; empty where it has none.
  std::string Name(const Elf64_Sym& symbol, size_t longest) const;

  // Where [address, address + length) lies in the file; nullopt if it does
  // not.  `writable` says whether the loader may change it.
  std::optional<uint64_t> FileOffset(uint64_t address, uint64_t length,
                                     bool* writable = nullptr) const;

 private:
  struct SymbolTable {
    uint64_t offset = 0;
    uint64_t count = 0;
    uint64_t strings = 0;
    uint64_t strings_size = 0;
  };
  struct Dynamic {
    uint64_t offset = 0;  // the section itself, in the file
    uint64_t count = 0;   // entries before its end
    std::optional<uint64_t> symbols, strings, strings_size, hash, gnu_hash;
    std::optional<uint64_t> soname, runpath, rpath;  // in the strings
    uint64_t flags = 0;
    uint64_t flags_1 = 0;
    bool text_relocations = false;
  };

  explicit ElfFile(FileBytes bytes) : bytes_(bytes) {}
  absl::Status ReadHeader();
  absl::Status CheckType() const;
  absl::Status ReadSegments();
  absl::Status AddSegment(const Elf64_Phdr& segment);
  absl::Status ReadDynamic();
  void ReadDynamicEntry(const Elf64_Dyn& entry);
  std::string NoteBuildId(const Elf64_Phdr& notes) const;
  std::optional<std::string> Text(std::optional<uint64_t> offset) const;
  absl::Status FindSymbols();
  std::optional<uint64_t> CountByHash(uint64_t address) const;
  std::optional<uint64_t> CountByGnuHash(uint64_t address) const;
  std::optional<uint64_t> CountBySections() const;

  FileBytes bytes_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;  // PT_LOAD, PT_DYNAMIC, PT_NOTE
  Dynamic dynamic_;
  SymbolTable table_;
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_ELF_FILE_H_
