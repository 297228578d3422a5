// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/internal/elf_manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/internal/device_name.h"
#include "devrt/runtime/internal/elf_file.h"
#include "devrt/runtime/internal/text.h"
#include "devrt/runtime/status.h"

namespace devrt::internal {
namespace {

constexpr size_t kLongestMajor = 10;  // digits of a uint32_t
// What the first version of the manifest has; later ones only grow.
constexpr uint32_t kLeastManifest =
    DEVRT_SIZE_THROUGH(devrt_manifest_v0, version);

absl::Status Bad(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

absl::Status ForeignMajor(uint32_t major, const LibraryKind& kind) {
  return absl::FailedPreconditionError(
      absl::StrCat("a ", kind.noun, " for devrt ABI major ", major,
                   "; this devrt knows major ", DEVRT_ABI_MAJOR, ": use a ",
                   kind.noun, " and a devrt of one major version"));
}

std::optional<uint32_t> ParseMajor(std::string_view digits) {
  uint32_t major = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), major);
  const bool all = end == digits.data() + digits.size();
  if (digits.empty() || error != std::errc() || !all) return std::nullopt;
  return major;
}

struct PluginSymbols {
  std::optional<Elf64_Sym> manifest;  // of our major
  std::optional<uint32_t> foreign;    // lowest other major found
  bool has_open = false;
};

absl::StatusOr<PluginSymbols> FindSymbols(const ElfFile& file,
                                          const LibraryKind& kind) {
  PluginSymbols found;
  DEVRT_RETURN_IF_ERROR(file.ForEachExport([&](const Elf64_Sym& symbol) {
    if (file.NameAfter(symbol, kind.open_symbol, 0) == "") {
      found.has_open = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
    }
    const std::optional<std::string> digits =
        file.NameAfter(symbol, kind.manifest_prefix, kLongestMajor);
    if (!digits.has_value()) return;
    const std::optional<uint32_t> major = ParseMajor(*digits);
    if (!major.has_value()) return;
    if (*major == DEVRT_ABI_MAJOR) {
      found.manifest = symbol;
    } else {
      found.foreign = std::min(found.foreign.value_or(*major), *major);
    }
  }));
  return found;
}

absl::StatusOr<devrt_manifest_v0> ReadAt(const ElfFile& file,
                                         const Elf64_Sym& symbol,
                                         const LibraryKind& kind) {
  if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT) {
    return Bad(
        absl::StrCat("its ", kind.manifest_symbol, " is not a data object"));
  }
  if (symbol.st_size < kLeastManifest) {
    return Bad(absl::StrCat("its manifest has ", symbol.st_size,
                            " bytes; expected at least ", kLeastManifest));
  }
  bool writable = false;
  const std::optional<uint64_t> offset =
      file.FileOffset(symbol.st_value, kLeastManifest, &writable);
  if (!offset.has_value()) {
    return Bad("its manifest lies outside the file");
  }
  if (writable) {
    return Bad(
        "its manifest needs relocation, or is not const: it must be readable "
        "from the file without loading it");
  }
  devrt_manifest_v0 manifest = {};
  const uint64_t size = std::min<uint64_t>(symbol.st_size, sizeof manifest);
  if (!file.bytes().Read(*offset, &manifest, size)) {
    return Bad("its manifest cannot be read");
  }
  if (manifest.struct_size > symbol.st_size) {
    return Bad(absl::StrCat("its manifest claims ", manifest.struct_size,
                            " bytes, but has ", symbol.st_size));
  }
  return manifest;
}

absl::StatusOr<devrt_manifest_v0> Read(int fd, const LibraryKind& kind) {
  struct stat info;
  if (fstat(fd, &info) != 0) return Bad("cannot be examined");
  if (!S_ISREG(info.st_mode)) {
    return Bad(S_ISDIR(info.st_mode) ? "a directory, not a file"
                                     : "not a regular file");
  }
  DEVRT_ASSIGN_OR_RETURN(
      const ElfFile file,
      ElfFile::Parse(FileBytes(fd, static_cast<uint64_t>(info.st_size))));
  DEVRT_ASSIGN_OR_RETURN(const PluginSymbols symbols, FindSymbols(file, kind));
  if (!symbols.manifest.has_value()) {
    if (symbols.foreign.has_value())
      return ForeignMajor(*symbols.foreign, kind);
    return Bad(absl::StrCat("not a devrt ", kind.noun, ": it does not export ",
                            kind.manifest_symbol));
  }
  DEVRT_ASSIGN_OR_RETURN(const devrt_manifest_v0 manifest,
                         ReadAt(file, *symbols.manifest, kind));
  DEVRT_RETURN_IF_ERROR(CheckManifest(manifest, kind));
  if (!symbols.has_open) {
    return Bad(absl::StrCat("not a devrt ", kind.noun,
                            ": it does not export the function ",
                            kind.open_symbol));
  }
  return manifest;
}

// A field that ends within its size and can be printed.
template <size_t kSize>
absl::Status CheckText(const char (&field)[kSize], const char* name) {
  const size_t length = strnlen(field, kSize);
  if (length == kSize) {
    return Bad(absl::StrCat("its manifest's ", name, " does not end"));
  }
  const bool printable = std::none_of(field, field + length,
                                      [](unsigned char c) { return c < 0x20; });
  if (!printable) {
    return Bad(absl::StrCat(
        "its manifest's ", name,
        " has control characters: ", Quoted(std::string_view(field, length))));
  }
  return absl::OkStatus();
}

absl::Status OpenError(const std::string& path, int error) {
  const std::string text = absl::StrCat(path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(text);
    default:
      return absl::InvalidArgumentError(text);
  }
}

}  // namespace

absl::Status CheckManifest(const devrt_manifest_v0& manifest,
                           const LibraryKind& kind) {
  if (std::memcmp(manifest.magic, kind.magic, sizeof manifest.magic) != 0) {
    return Bad(
        absl::StrCat("its manifest does not begin with ", Quoted(kind.magic)));
  }
  if (manifest.abi_major != DEVRT_ABI_MAJOR) {
    return ForeignMajor(manifest.abi_major, kind);
  }
  if (manifest.struct_size < kLeastManifest) {
    return Bad(absl::StrCat("its manifest claims ", manifest.struct_size,
                            " bytes; expected at least ", kLeastManifest));
  }
  const std::string_view name(
      manifest.backend, strnlen(manifest.backend, sizeof manifest.backend));
  if (!IsBackendName(name)) {
    return Bad(absl::StrCat("its manifest's backend name is ", Quoted(name),
                            "; expected [a-z][a-z0-9_]*, at most ",
                            sizeof manifest.backend - 1, " bytes"));
  }
  DEVRT_RETURN_IF_ERROR(CheckText(manifest.vendor, "vendor"));
  return CheckText(manifest.version, "version");
}

absl::StatusOr<devrt_manifest_v0> ReadManifestFrom(int fd,
                                                   const std::string& name,
                                                   const LibraryKind& kind) {
  absl::StatusOr<devrt_manifest_v0> manifest = Read(fd, kind);
  if (manifest.ok()) return manifest;
  const absl::Status& why = manifest.status();
  return absl::Status(why.code(), absl::StrCat(name, ": ", why.message()));
}

absl::StatusOr<devrt_manifest_v0> ReadManifest(const std::string& path,
                                               const LibraryKind& kind) {
  // NONBLOCK: a pipe must not hold us up before we see that it is one.
  const int fd =
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return OpenError(path, errno);
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  return ReadManifestFrom(fd, path, kind);
}

}  // namespace devrt::internal
