// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/elf_manifest.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "runtime/common/device_name.h"
#include "runtime/common/text.h"

namespace devrt::internal {
namespace {

constexpr size_t kLongestMajor = 10;  // digits of a uint32_t
// The size of the first version of the manifest; later ones only grow.
constexpr uint32_t kLeastManifest =
    DEVRT_SIZE_THROUGH(devrt_manifest_v0, version);

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
  std::optional<Elf64_Sym> manifest;  // of devrt's own ABI major
  std::optional<uint32_t> foreign;    // the lowest other major found
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

absl::Status ReadAt(const ElfFile& file, const Elf64_Sym& symbol,
                    const LibraryKind& kind, devrt_manifest_v0* manifest) {
  if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT) {
    return absl::InvalidArgumentError(
        absl::StrCat("its ", kind.manifest_symbol, " is not a data object"));
  }
  if (symbol.st_size < kLeastManifest) {
    return absl::InvalidArgumentError(
        absl::StrCat("its manifest has ", symbol.st_size,
                     " bytes; expected at least ", kLeastManifest));
  }
  bool writable = false;
  const std::optional<uint64_t> offset =
      file.FileOffset(symbol.st_value, kLeastManifest, &writable);
  if (!offset.has_value()) {
    return absl::InvalidArgumentError("its manifest lies outside the file");
  }
  if (writable) {
    return absl::InvalidArgumentError(
        "its manifest needs relocation, or is not const: it must be readable "
        "from the file without loading it");
  }
  const uint64_t size = std::min<uint64_t>(symbol.st_size, sizeof *manifest);
  return file.bytes().Read(*offset, manifest, size)
             ? absl::OkStatus()
             : absl::InvalidArgumentError("its manifest cannot be read");
}

// Checks that the field has a terminating NUL and only printable characters.
template <size_t kSize>
absl::Status CheckText(const char (&field)[kSize], const char* name) {
  const size_t length = strnlen(field, kSize);
  if (length == kSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("its manifest's ", name, " does not end"));
  }
  const bool printable = std::none_of(field, field + length,
                                      [](unsigned char c) { return c < 0x20; });
  if (!printable) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its manifest's ", name,
        " has control characters: ", Quoted(std::string_view(field, length))));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckManifest(const devrt_manifest_v0& manifest,
                           const LibraryKind& kind) {
  if (std::memcmp(manifest.magic, kind.magic, sizeof manifest.magic) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("its manifest does not begin with ", Quoted(kind.magic)));
  }
  if (manifest.abi_major != DEVRT_ABI_MAJOR) {
    return ForeignMajor(manifest.abi_major, kind);
  }
  if (manifest.struct_size < kLeastManifest) {
    return absl::InvalidArgumentError(
        absl::StrCat("its manifest claims ", manifest.struct_size,
                     " bytes; expected at least ", kLeastManifest));
  }
  const std::string_view name(
      manifest.backend, strnlen(manifest.backend, sizeof manifest.backend));
  if (!IsBackendName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("its manifest's backend name is ", Quoted(name),
                     "; expected [a-z][a-z0-9_]*, at most ",
                     sizeof manifest.backend - 1, " bytes"));
  }
  DEVRT_RETURN_IF_ERROR(CheckText(manifest.vendor, "vendor"));
  return CheckText(manifest.version, "version");
}

absl::Status ReadManifest(const ElfFile& file, const LibraryKind& kind,
                          std::optional<devrt_manifest_v0>* manifest) {
  DEVRT_ASSIGN_OR_RETURN(const PluginSymbols symbols, FindSymbols(file, kind));
  if (!symbols.manifest.has_value()) {
    if (symbols.foreign.has_value()) {
      return ForeignMajor(*symbols.foreign, kind);
    }
    return absl::InvalidArgumentError(absl::StrCat("not a devrt ", kind.noun,
                                                   ": it does not export ",
                                                   kind.manifest_symbol));
  }
  devrt_manifest_v0 read = {};
  DEVRT_RETURN_IF_ERROR(ReadAt(file, *symbols.manifest, kind, &read));
  *manifest = read;
  if (read.struct_size > symbols.manifest->st_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("its manifest claims ", read.struct_size,
                     " bytes, but has ", symbols.manifest->st_size));
  }
  DEVRT_RETURN_IF_ERROR(CheckManifest(read, kind));
  if (!symbols.has_open) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a devrt ", kind.noun,
                     ": it does not export the function ", kind.open_symbol));
  }
  return absl::OkStatus();
}

bool IsSymbolOf(const LibraryKind& kind, std::string_view name) {
  for (std::string_view symbol : {std::string_view(kind.manifest_symbol),
                                  std::string_view(kind.open_symbol)}) {
    // The manifest or open symbol of another major.
    symbol = symbol.substr(0, symbol.rfind('v') + 1);
    if (name.substr(0, symbol.size()) == symbol &&
        ParseMajor(name.substr(symbol.size())).has_value()) {
      return true;
    }
  }
  return false;
}

}  // namespace devrt::internal
