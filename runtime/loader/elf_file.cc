// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/elf_file.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"

namespace devrt::internal {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#elif defined(__powerpc64__)
constexpr uint16_t kMachine = EM_PPC64;
#elif defined(__riscv)
constexpr uint16_t kMachine = EM_RISCV;
#else
#error "add the ELF machine number of this processor"
#endif

constexpr size_t kMostSegments = 100;
constexpr int kMostNotes = 100;

absl::Status Bad(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

std::string MachineName(uint16_t machine) {
  switch (machine) {
    case EM_386:
      return "32-bit x86";
    case EM_X86_64:
      return "x86-64";
    case EM_ARM:
      return "32-bit ARM";
    case EM_AARCH64:
      return "AArch64";
    case EM_PPC64:
      return "PowerPC64";
    case EM_RISCV:
      return "RISC-V";
    default:
      return absl::StrCat("ELF machine ", machine);
  }
}

absl::Status CheckIdentity(const unsigned char (&ident)[EI_NIDENT]) {
  if (std::memcmp(ident, ELFMAG, SELFMAG) != 0) {
    return Bad("not an ELF file");
  }
  if (ident[EI_CLASS] == ELFCLASS32) {
    return Bad("a 32-bit ELF file; expected 64-bit");
  }
  if (ident[EI_DATA] == ELFDATA2MSB) {
    return Bad("a big-endian ELF file; expected little-endian");
  }
  if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != ELFDATA2LSB ||
      ident[EI_VERSION] != EV_CURRENT) {
    return Bad("damaged: unknown ELF class, byte order or version");
  }
  return absl::OkStatus();
}

}  // namespace

bool FileBytes::Read(uint64_t offset, void* to, uint64_t length) const {
  if (!Contains(offset, length)) return false;
  if (memory_ != nullptr && length > 0) {
    std::memcpy(to, memory_ + offset, length);
    return true;
  }
  char* out = static_cast<char*>(to);
  while (length > 0) {
    const ssize_t n = pread(fd_, out, length, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;  // the file is shorter than fstat said
    out += n;
    offset += static_cast<uint64_t>(n);
    length -= static_cast<uint64_t>(n);
  }
  return true;
}

absl::StatusOr<ElfFile> ElfFile::Parse(FileBytes bytes) {
  absl::Status status;
  ElfFile file = ParseAsFarAsPossible(bytes, &status);
  if (!status.ok()) return status;
  return file;
}

ElfFile ElfFile::ParseAsFarAsPossible(FileBytes bytes, absl::Status* status) {
  ElfFile file(bytes);
  *status = file.ReadHeader();
  if (!status->ok()) return file;
  // `*status` keeps the first error; reading goes on after it.
  status->Update(file.CheckType());
  status->Update(file.ReadSegments());
  status->Update(file.ReadDynamic());
  status->Update(file.FindSymbols());
  return file;
}

absl::Status ElfFile::ReadHeader() {
  if (bytes_.size() == 0) return Bad("empty");
  unsigned char ident[EI_NIDENT] = {};
  const uint64_t known = std::min<uint64_t>(bytes_.size(), sizeof ident);
  bytes_.Read(0, ident, known);
  if (std::memcmp(ident, ELFMAG, std::min<uint64_t>(known, SELFMAG)) != 0) {
    return Bad("not an ELF file");
  }
  if (known < sizeof ident) {
    return Bad(absl::StrCat("truncated: ", bytes_.size(), " bytes"));
  }
  DEVRT_RETURN_IF_ERROR(CheckIdentity(ident));
  if (!bytes_.Read(0, &header_, sizeof header_)) {
    header_ = {};
    return Bad(absl::StrCat("truncated: ", bytes_.size(),
                            " bytes hold no ELF header"));
  }
  return absl::OkStatus();
}

absl::Status ElfFile::CheckType() const {
  if (header_.e_machine != kMachine) {
    return Bad(absl::StrCat("built for ", MachineName(header_.e_machine),
                            "; this machine is ", MachineName(kMachine)));
  }
  switch (header_.e_type) {
    case ET_DYN:
      return absl::OkStatus();
    case ET_EXEC:
      return Bad("a program, not a shared object");
    case ET_REL:
      return Bad("an object file, not a shared object");
    default:
      return Bad(
          absl::StrCat("not a shared object (ELF type ", header_.e_type, ")"));
  }
}

absl::Status ElfFile::ReadSegments() {
  const uint64_t count = header_.e_phnum;
  if (count == 0 || header_.e_phentsize != sizeof(Elf64_Phdr)) {
    return Bad("damaged: no program headers");
  }
  absl::Status status;
  const bool read = bytes_.ForEach<Elf64_Phdr>(
      header_.e_phoff, count, [&](const Elf64_Phdr& segment) {
        status.Update(AddSegment(segment));
        return segments_.size() < kMostSegments;
      });
  if (!read) return Bad("truncated: its program headers are missing");
  if (segments_.size() == kMostSegments) {
    return Bad(absl::StrCat("damaged: it has ", count,
                            " program headers; real files have about ten"));
  }
  DEVRT_RETURN_IF_ERROR(status);
  const uint64_t sections = uint64_t{header_.e_shnum} * header_.e_shentsize;
  if (header_.e_shoff != 0 && !bytes_.Contains(header_.e_shoff, sections)) {
    return Bad(absl::StrCat("truncated: ", bytes_.size(),
                            " bytes, but section headers begin at ",
                            header_.e_shoff));
  }
  return absl::OkStatus();
}

absl::Status ElfFile::AddSegment(const Elf64_Phdr& segment) {
  if (segment.p_type == PT_NOTE) segments_.push_back(segment);
  if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC) {
    return absl::OkStatus();
  }
  segments_.push_back(segment);
  // Mapped pages after the end of the file would raise SIGBUS in the dynamic
  // linker.
  if (bytes_.Contains(segment.p_offset, segment.p_filesz)) {
    return absl::OkStatus();
  }
  return Bad(absl::StrCat("truncated: ", bytes_.size(),
                          " bytes, but a segment of ", segment.p_filesz,
                          " bytes begins at ", segment.p_offset));
}

absl::Status ElfFile::ReadDynamic() {
  const auto is_dynamic = [](const auto& s) { return s.p_type == PT_DYNAMIC; };
  const auto found =
      std::find_if(segments_.begin(), segments_.end(), is_dynamic);
  if (found == segments_.end()) {
    return Bad("not a shared object: it has no dynamic section");
  }
  if (std::count_if(segments_.begin(), segments_.end(), is_dynamic) > 1) {
    // The dynamic linker would use another section than this reader.
    return Bad("damaged: it has several dynamic sections");
  }
  dynamic_.offset = found->p_offset;
  const bool read = bytes_.ForEach<Elf64_Dyn>(
      found->p_offset, found->p_filesz / sizeof(Elf64_Dyn),
      [&](const Elf64_Dyn& entry) {
        if (entry.d_tag == DT_NULL) return false;
        ++dynamic_.count;
        ReadDynamicEntry(entry);
        return true;
      });
  if (!read) return Bad("damaged: its dynamic section lies outside the file");
  if ((dynamic_.flags_1 & DF_1_PIE) != 0) {
    return Bad("a program, not a shared object");
  }
  return absl::OkStatus();
}

void ElfFile::ReadDynamicEntry(const Elf64_Dyn& entry) {
  const uint64_t value = entry.d_un.d_val;
  switch (entry.d_tag) {
    case DT_SYMTAB:
      dynamic_.symbols = value;
      break;
    case DT_STRTAB:
      dynamic_.strings = value;
      break;
    case DT_STRSZ:
      dynamic_.strings_size = value;
      break;
    case DT_HASH:
      dynamic_.hash = value;
      break;
    case DT_GNU_HASH:
      dynamic_.gnu_hash = value;
      break;
    case DT_SONAME:
      dynamic_.soname = value;
      break;
    case DT_RUNPATH:
      dynamic_.runpath = value;
      break;
    case DT_RPATH:
      dynamic_.rpath = value;
      break;
    case DT_FLAGS:
      dynamic_.flags = value;
      break;
    case DT_FLAGS_1:
      dynamic_.flags_1 = value;
      break;
    case DT_TEXTREL:
      dynamic_.text_relocations = true;
      break;
    default:
      break;
  }
}

absl::Status ElfFile::FindSymbols() {
  if (!dynamic_.symbols || !dynamic_.strings || !dynamic_.strings_size) {
    return Bad("damaged: it has no dynamic symbol table");
  }
  // Before the symbols, so that names can be read even if symbols cannot.
  const std::optional<uint64_t> strings =
      FileOffset(*dynamic_.strings, *dynamic_.strings_size);
  if (strings.has_value()) {
    table_.strings = *strings;
    table_.strings_size = *dynamic_.strings_size;
  }
  std::optional<uint64_t> count;
  if (dynamic_.gnu_hash) {
    // The dynamic linker looks symbols up in this table without any check.
    count = CountByGnuHash(*dynamic_.gnu_hash);
    if (!count) return Bad("damaged: its symbol hash table");
  }
  if (dynamic_.hash) {
    const std::optional<uint64_t> chains = CountByHash(*dynamic_.hash);
    if (!chains) return Bad("damaged: its symbol hash table");
    count = chains;
  }
  if (!count) count = CountBySections();
  if (!count) return Bad("damaged: its symbols cannot be counted");
  if (*count > bytes_.size() / sizeof(Elf64_Sym)) {
    return Bad(absl::StrCat("damaged: a file of ", bytes_.size(),
                            " bytes cannot hold ", *count, " symbols"));
  }
  const std::optional<uint64_t> symbols =
      FileOffset(*dynamic_.symbols, *count * sizeof(Elf64_Sym));
  if (!symbols || !strings) {
    return Bad("damaged: its dynamic symbols lie outside the file");
  }
  table_.offset = *symbols;
  table_.count = *count;
  return absl::OkStatus();
}

std::optional<uint64_t> ElfFile::CountByHash(uint64_t address) const {
  uint32_t counts[2];  // buckets, chains; each symbol has one chain entry
  const std::optional<uint64_t> offset = FileOffset(address, sizeof counts);
  if (!offset || !bytes_.Read(*offset, counts, sizeof counts)) {
    return std::nullopt;
  }
  const uint64_t entries = uint64_t{counts[0]} + counts[1];
  if (counts[0] == 0 ||
      !bytes_.Contains(*offset + sizeof counts, entries * sizeof(uint32_t))) {
    return std::nullopt;
  }
  return counts[1];
}

// The GNU hash table has no count of symbols.  Each bucket holds the index of
// its first symbol; the chain with the greatest index ends with the last
// symbol.
std::optional<uint64_t> ElfFile::CountByGnuHash(uint64_t address) const {
  struct {
    uint32_t buckets, first_symbol, bloom_words, bloom_shift;
  } head;
  const std::optional<uint64_t> offset = FileOffset(address, sizeof head);
  if (!offset || !bytes_.Read(*offset, &head, sizeof head)) {
    return std::nullopt;
  }
  const bool power_of_two =
      head.bloom_words != 0 && (head.bloom_words & (head.bloom_words - 1)) == 0;
  if (head.buckets == 0 || !power_of_two) return std::nullopt;
  const uint64_t buckets =
      *offset + sizeof head + uint64_t{head.bloom_words} * sizeof(uint64_t);
  const uint64_t chains = buckets + uint64_t{head.buckets} * sizeof(uint32_t);
  uint32_t greatest = 0;
  const bool read = bytes_.ForEach<uint32_t>(
      buckets, head.buckets, [&](const uint32_t& bucket) {
        greatest = std::max(greatest, bucket);
        return true;
      });
  if (!read) return std::nullopt;
  if (greatest < head.first_symbol) return head.first_symbol;
  uint64_t count = greatest;
  const uint64_t chain =
      chains + (greatest - uint64_t{head.first_symbol}) * sizeof(uint32_t);
  if (!bytes_.Contains(chain, 0)) return std::nullopt;
  bool ended = false;
  bytes_.ForEach<uint32_t>(chain, (bytes_.size() - chain) / sizeof(uint32_t),
                           [&](const uint32_t& hash) {
                             ++count;
                             ended = (hash & 1) != 0;
                             return !ended;
                           });
  if (!ended) return std::nullopt;
  return count;
}

std::optional<uint64_t> ElfFile::CountBySections() const {
  if (header_.e_shoff == 0 || header_.e_shentsize != sizeof(Elf64_Shdr)) {
    return std::nullopt;
  }
  std::optional<uint64_t> count;
  bytes_.ForEach<Elf64_Shdr>(header_.e_shoff, header_.e_shnum,
                             [&](const Elf64_Shdr& section) {
                               if (section.sh_type != SHT_DYNSYM) return true;
                               count = section.sh_size / sizeof(Elf64_Sym);
                               return false;
                             });
  return count;
}

absl::Status ElfFile::ForEachExport(
    absl::FunctionRef<void(const Elf64_Sym&)> visit) const {
  const bool read = bytes_.ForEach<Elf64_Sym>(
      table_.offset, table_.count, [&](const Elf64_Sym& symbol) {
        const unsigned binding = ELF64_ST_BIND(symbol.st_info);
        const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
        const bool seen = binding != STB_LOCAL && visibility != STV_HIDDEN &&
                          visibility != STV_INTERNAL;
        if (seen && symbol.st_shndx != SHN_UNDEF) visit(symbol);
        return true;
      });
  return read ? absl::OkStatus() : Bad("its symbols cannot be read");
}

std::optional<std::string> ElfFile::NameAfter(const Elf64_Sym& symbol,
                                              const std::string& prefix,
                                              size_t longest) const {
  if (symbol.st_name >= table_.strings_size) return std::nullopt;
  const uint64_t left = table_.strings_size - symbol.st_name;
  std::string name(std::min<uint64_t>(left, prefix.size() + longest + 1), '\0');
  if (!bytes_.Read(table_.strings + symbol.st_name, name.data(), name.size())) {
    return std::nullopt;
  }
  const size_t end = name.find('\0');
  if (end == std::string::npos || end < prefix.size() ||
      name.compare(0, prefix.size(), prefix) != 0) {
    return std::nullopt;
  }
  return name.substr(prefix.size(), end - prefix.size());
}

std::string ElfFile::Name(const Elf64_Sym& symbol, size_t longest) const {
  if (symbol.st_name >= table_.strings_size) return std::string();
  const uint64_t left = table_.strings_size - symbol.st_name;
  std::string name(std::min<uint64_t>(left, longest), '\0');
  if (!bytes_.Read(table_.strings + symbol.st_name, name.data(), name.size())) {
    return std::string();
  }
  name.resize(std::min(name.find('\0'), name.size()));
  name.shrink_to_fit();
  return name;
}

std::optional<std::string> ElfFile::Text(std::optional<uint64_t> offset) const {
  if (!offset.has_value() || *offset >= table_.strings_size) {
    return std::nullopt;
  }
  char text[kLongestName + 1];
  const uint64_t size =
      std::min<uint64_t>(table_.strings_size - *offset, sizeof text);
  if (!bytes_.Read(table_.strings + *offset, text, size)) return std::nullopt;
  const size_t length = strnlen(text, size);
  if (length == size) return std::nullopt;
  return std::string(text, length);
}

std::string ElfFile::Machine() const {
  return header_.e_machine == EM_NONE ? std::string()
                                      : MachineName(header_.e_machine);
}

void ElfFile::ForEachNeeded(
    absl::FunctionRef<bool(const std::optional<std::string>&)> visit) const {
  bytes_.ForEach<Elf64_Dyn>(dynamic_.offset, dynamic_.count,
                            [&](const Elf64_Dyn& entry) {
                              const bool needed = entry.d_tag == DT_NEEDED ||
                                                  entry.d_tag == DT_AUXILIARY ||
                                                  entry.d_tag == DT_FILTER;
                              return !needed || visit(Text(entry.d_un.d_val));
                            });
}

std::string ElfFile::BuildId() const {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_NOTE) continue;
    std::string id = NoteBuildId(segment);
    if (!id.empty()) return id;
  }
  return std::string();
}

std::string ElfFile::NoteBuildId(const Elf64_Phdr& notes) const {
  constexpr uint64_t kLongestId = 64;
  constexpr char kOwner[] = "GNU";
  if (!bytes_.Contains(notes.p_offset, notes.p_filesz)) return std::string();
  const uint64_t align = notes.p_align == 8 ? 8 : 4;
  const uint64_t end = notes.p_offset + notes.p_filesz;
  uint64_t at = notes.p_offset;
  for (int i = 0; i < kMostNotes; ++i) {
    Elf64_Nhdr note;
    char owner[sizeof kOwner] = {};
    if (end - at < sizeof note || !bytes_.Read(at, &note, sizeof note)) break;
    const uint64_t name = at + sizeof note;
    const uint64_t id = name + (note.n_namesz + align - 1) / align * align;
    const uint64_t next = id + (note.n_descsz + align - 1) / align * align;
    if (id > end || note.n_descsz > end - id || next > end) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof kOwner &&
        note.n_descsz <= kLongestId && bytes_.Read(name, owner, sizeof owner) &&
        std::memcmp(owner, kOwner, sizeof kOwner) == 0) {
      char bytes[kLongestId];
      if (!bytes_.Read(id, bytes, note.n_descsz)) break;
      return absl::BytesToHexString(absl::string_view(bytes, note.n_descsz));
    }
    at = next;
  }
  return std::string();
}

std::optional<uint64_t> ElfFile::FileOffset(uint64_t address, uint64_t length,
                                            bool* writable) const {
  for (const Elf64_Phdr& segment : segments_) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr) continue;
    const uint64_t inside = address - segment.p_vaddr;
    if (inside > segment.p_filesz || length > segment.p_filesz - inside) {
      continue;
    }
    const bool text_relocations =
        dynamic_.text_relocations || (dynamic_.flags & DF_TEXTREL) != 0;
    if (writable != nullptr) {
      *writable = text_relocations || (segment.p_flags & PF_W) != 0;
    }
    return segment.p_offset + inside;
  }
  return std::nullopt;
}

}  // namespace devrt::internal
