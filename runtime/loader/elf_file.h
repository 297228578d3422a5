// SPDX-License-Identifier: Apache-2.0
//
// Reads the dynamic section and symbols of an ELF64 shared object through a
// file descriptor, without mapping or running the file.  Every offset and count
// in the file is checked against the file's size before use, so a damaged or
// hostile file ends in an error.
//
//   absl::StatusOr<ElfFile> file = ElfFile::Parse(FileBytes(fd, size));
//   if (!file.ok()) return file.status();  // "truncated: 200 bytes"
//   std::string directories = file->RunPath().value_or("");

#ifndef DEVRT_RUNTIME_LOADER_ELF_FILE_H_
#define DEVRT_RUNTIME_LOADER_ELF_FILE_H_

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

// The bytes of a file: an open descriptor or memory.  Not the owner of either.
class FileBytes {
 public:
  FileBytes(int fd, uint64_t size) : fd_(fd), size_(size) {}
  explicit FileBytes(std::string_view memory)
      : memory_(memory.data()), size_(memory.size()) {}

  uint64_t size() const { return size_; }
  bool Contains(uint64_t offset, uint64_t length) const {
    return offset <= size_ && length <= size_ - offset;
  }
  // Reads all of [offset, offset + length); otherwise returns false.
  bool Read(uint64_t offset, void* to, uint64_t length) const;

  // Visits `count` records of type T, until `visit` returns false.  Returns
  // false if the file does not contain all records.
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
  // A shared object for this machine, or INVALID_ARGUMENT with what the file is
  // instead.  Error texts do not name the file: the caller adds the name.
  static absl::StatusOr<ElfFile> Parse(FileBytes bytes);

  // Reads as much as possible of any file.  Parts that cannot be read are
  // empty.  `*status` is the status that Parse would return.
  static ElfFile ParseAsFarAsPossible(FileBytes bytes, absl::Status* status);

  const FileBytes& bytes() const { return bytes_; }

  // "x86-64"; empty if the header could not be read.
  std::string Machine() const;

  // Texts of the dynamic section; nullopt if the entry is absent, or longer
  // than kLongestName bytes.
  static constexpr size_t kLongestName = 4095;
  std::optional<std::string> Soname() const { return Text(dynamic_.soname); }
  std::optional<std::string> RunPath() const { return Text(dynamic_.runpath); }
  // DT_RPATH, the older form of RUNPATH.  Dependencies also use it.
  std::optional<std::string> RPath() const { return Text(dynamic_.rpath); }
  // Visits the names of the needed libraries (DT_NEEDED) until `visit` returns
  // false; nullopt for a name that cannot be read.
  void ForEachNeeded(
      absl::FunctionRef<bool(const std::optional<std::string>&)> visit) const;

  // The linker's build id as hexadecimal digits, or empty.
  std::string BuildId() const;

  // Visits the defined dynamic symbols that other libraries can see.
  absl::Status ForEachExport(
      absl::FunctionRef<void(const Elf64_Sym&)> visit) const;

  // If the symbol's name begins with `prefix`: the rest, if it has 1 to
  // `longest` bytes.  Otherwise nullopt.
  std::optional<std::string> NameAfter(const Elf64_Sym& symbol,
                                       const std::string& prefix,
                                       size_t longest) const;

  // The symbol's name, cut to `longest` bytes; empty if it has no name.
  std::string Name(const Elf64_Sym& symbol, size_t longest) const;

  // The file offset of the memory [address, address + length); nullopt if the
  // file does not contain it.  `*writable`: the loaded memory is writable.
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
    uint64_t offset = 0;  // of the section in the file
    uint64_t count = 0;   // of entries before DT_NULL
    std::optional<uint64_t> symbols, strings, strings_size, hash, gnu_hash;
    std::optional<uint64_t> soname, runpath, rpath;  // offsets in the strings
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

#endif  // DEVRT_RUNTIME_LOADER_ELF_FILE_H_
