// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/code_places.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#if __has_include(<elfutils/libdwfl.h>)
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#define DEVRT_HAS_LIBDW 1
#endif

namespace devrt::race {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// Returns the begin of the last group in parentheses if the text ends with it,
// else npos.
size_t BeginOfLastGroup(std::string_view text) {
  if (text.empty() || text.back() != ')') return std::string_view::npos;
  int depth = 0;
  for (size_t i = text.size(); i-- > 0;) {
    if (text[i] == ')') ++depth;
    if (text[i] == '(' && --depth == 0) return i;
  }
  return std::string_view::npos;
}

// Returns the begin of the name after the return type, which templates have.
size_t BeginOfName(std::string_view text) {
  constexpr std::string_view kOperator = "operator";
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    // Blanks in "operator new" and "operator bool" are a part of the name, as
    // is all that follows.
    if (depth == 0 && text.substr(i, kOperator.size()) == kOperator) break;
    if (text[i] == '<' || text[i] == '(' || text[i] == '{') ++depth;
    if (text[i] == '>' || text[i] == ')' || text[i] == '}') --depth;
    // "f() const::{lambda()#1}::operator()" is one name.
    if (text[i] == ' ' && depth == 0 && text.substr(i, 6) != " const") {
      begin = i + 1;
    }
  }
  return begin;
}

// "ns::F::g" of the symbol of "int ns::F::g<>(int) const".
std::string FunctionName(const char* symbol) {
  // Names of C look like mangled types: "f" would be "float".
  if (std::strncmp(symbol, "_Z", 2) != 0) return symbol;
  int status = 0;
  const std::unique_ptr<char, Free> demangled(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status));
  if (demangled == nullptr) return symbol;
  std::string_view name = demangled.get();
  // "[clone .part.0]", and qualifiers of the object.
  name = name.substr(0, name.find(" [clone"));
  for (const std::string_view end : {" &&", " &", " volatile", " const"}) {
    if (name.size() > end.size() &&
        name.substr(name.size() - end.size()) == end) {
      name.remove_suffix(end.size());
    }
  }
  name = name.substr(0, BeginOfLastGroup(name));
  return std::string(name.substr(BeginOfName(name)));
}

// The instruction's offset in its module, as addr2line takes it.
CodePlace ModulePlace(const void* instruction) {
  const CodeModule module = ModuleOf(instruction);
  CodePlace place;
  if (module.begin == nullptr) return place;
  std::array<char, 32> offset;
  std::snprintf(offset.data(), offset.size(), "+0x%" PRIxPTR,
                reinterpret_cast<uintptr_t>(instruction) - module.bias);
  place.module = module.name;
  place.module += offset.data();
  return place;
}

// The exported function of the instruction, or "".
std::string ExportedFunction(const void* instruction) {
  Dl_info info = {};
  if (dladdr(instruction, &info) == 0 || info.dli_sname == nullptr) return "";
  return FunctionName(info.dli_sname);
}

// How many modules the process has unloaded.
uint64_t Unloads() {
  uint64_t count = 0;
  const auto read = [](dl_phdr_info* info, size_t, void* out) {
    *static_cast<uint64_t*>(out) = info->dlpi_subs;
    return 1;
  };
  dl_iterate_phdr(read, &count);
  return count;
}

}  // namespace

CodeModule ModuleOf(const void* code) {
#ifdef DLFO_STRUCT_HAS_EH_DBASE
  // Unlike dladdr it takes no lock: a module's initialization, which has the
  // dynamic linker's lock, may call devrt and wait for the caller's lock.
  dl_find_object found = {};
  if (_dl_find_object(const_cast<void*>(code), &found) != 0) return {};
  const void* const begin = found.dlfo_map_start;
  const link_map* const map = found.dlfo_link_map;
#else  // before glibc 2.35
  Dl_info info = {};
  void* extra = nullptr;
  if (dladdr1(code, &info, &extra, RTLD_DL_LINKMAP) == 0) return {};
  const void* const begin = info.dli_fbase;
  const auto* const map = static_cast<const link_map*>(extra);
#endif
  std::string_view path = map->l_name;
  if (path.empty()) path = program_invocation_name;
  return {begin, map->l_addr, path.substr(path.rfind('/') + 1)};
}

std::string CodePlace::Text() const {
  if (!file.empty()) return file + ":" + std::to_string(line);
  return function.empty() ? module : module + " (" + function + ")";
}

#ifdef DEVRT_HAS_LIBDW

class CodePlaces::Lines {
 public:
  // nullptr if there is no such library, or if it lacks a function.
  static std::unique_ptr<Lines> Open(const char* library) {
    void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return nullptr;
    auto lines = std::unique_ptr<Lines>(new Lines);
    return lines->Load(handle) ? std::move(lines) : nullptr;
  }

  ~Lines() {
    if (process_ != nullptr) end_(process_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  // What is known of modules may be wrong, since one was unloaded.
  void Forget() {
    units_.clear();
    if (process_ != nullptr) end_(process_);
    process_ = nullptr;
  }

  // `place` has what is known without debug information.
  std::vector<CodePlace> At(const void* instruction, const CodePlace& place) {
    const auto address = reinterpret_cast<Dwarf_Addr>(instruction);
    Dwfl_Module* const module = ModuleAt(address);
    if (module == nullptr) return {place};
    CodePlace here = place;
    const char* const symbol = module_addrname_(module, address);
    if (symbol != nullptr) here.function = FunctionName(symbol);
    Dwarf_Addr bias = 0;
    Dwarf_Die* const unit = UnitAt(module, address, &bias);
    if (unit == nullptr) return {here};
    const Dwarf_Addr pc = address - bias;
    Dwarf_Line* const line = getsrc_die_(unit, pc);
    if (line == nullptr) return {here};
    const std::string folder = FolderOf(unit);
    lineno_(line, &here.line);
    SetFile(linesrc_(line, nullptr, nullptr), folder, &here);
    return WithInlined(unit, pc, folder, std::move(here));
  }

 private:
  Lines() = default;

  template <typename Function>
  static bool Find(void* handle, const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(handle, name));
    return *function != nullptr;
  }
  bool Load(void* handle) {
    const bool has_all =
        Find(handle, "dwfl_begin", &begin_) &&
        Find(handle, "dwfl_end", &end_) &&
        Find(handle, "dwfl_report_begin_add", &report_begin_add_) &&
        Find(handle, "dwfl_linux_proc_report", &linux_proc_report_) &&
        Find(handle, "dwfl_report_end", &report_end_) &&
        Find(handle, "dwfl_addrmodule", &addrmodule_) &&
        Find(handle, "dwfl_module_addrname", &module_addrname_) &&
        Find(handle, "dwfl_module_addrdie", &module_addrdie_) &&
        Find(handle, "dwfl_module_nextcu", &module_nextcu_) &&
        Find(handle, "dwarf_ranges", &ranges_) &&
        Find(handle, "dwarf_getsrc_die", &getsrc_die_) &&
        Find(handle, "dwarf_linesrc", &linesrc_) &&
        Find(handle, "dwarf_lineno", &lineno_) &&
        Find(handle, "dwarf_child", &child_) &&
        Find(handle, "dwarf_siblingof", &siblingof_) &&
        Find(handle, "dwarf_haspc", &haspc_) &&
        Find(handle, "dwarf_getscopes_die", &getscopes_die_) &&
        Find(handle, "dwarf_tag", &tag_) &&
        Find(handle, "dwarf_attr", &attr_) &&
        Find(handle, "dwarf_attr_integrate", &attr_integrate_) &&
        Find(handle, "dwarf_formstring", &formstring_) &&
        Find(handle, "dwarf_formudata", &formudata_) &&
        Find(handle, "dwarf_formref_die", &formref_die_) &&
        Find(handle, "dwarf_diename", &diename_) &&
        Find(handle, "dwarf_getsrcfiles", &getsrcfiles_) &&
        Find(handle, "dwarf_filesrc", &filesrc_) &&
        Find(handle, "dwfl_linux_proc_find_elf", &callbacks_.find_elf) &&
        // The standard one would ask servers.
        Find(handle, "dwfl_build_id_find_debuginfo",
             &callbacks_.find_debuginfo);
    return has_all;
  }

  Dwfl_Module* ModuleAt(Dwarf_Addr address) {
    Dwfl_Module* const known =
        process_ == nullptr ? nullptr : addrmodule_(process_, address);
    // It may be newer than the list of modules.
    if (known != nullptr || !ReadModules()) return known;
    return addrmodule_(process_, address);
  }
  bool ReadModules() {
    if (process_ == nullptr) process_ = begin_(&callbacks_);
    if (process_ == nullptr) return false;
    report_begin_add_(process_);
    const bool read = linux_proc_report_(process_, getpid()) == 0;
    return report_end_(process_, nullptr, nullptr) == 0 && read;
  }

  struct Unit {
    Dwarf_Addr end = 0;
    Dwarf_Addr bias = 0;
    Dwarf_Die* die = nullptr;
  };
  using Units = std::map<Dwarf_Addr, Unit>;  // by the begin of their code

  // The compilation unit of the code at `address`.
  Dwarf_Die* UnitAt(Dwfl_Module* module, Dwarf_Addr address, Dwarf_Addr* bias) {
    Dwarf_Die* const unit = module_addrdie_(module, address, bias);
    if (unit != nullptr) return unit;
    // libdw looks into a table that clang does not write (.debug_aranges).
    const Units& units = UnitsOf(module);
    auto next = units.upper_bound(address);
    if (next == units.begin() || (--next)->second.end <= address) {
      return nullptr;
    }
    *bias = next->second.bias;
    return next->second.die;
  }
  const Units& UnitsOf(Dwfl_Module* module) {
    const auto [known, is_new] = units_.try_emplace(module);
    Units& units = known->second;
    if (!is_new) return units;
    Dwarf_Addr bias = 0;
    Dwarf_Die* die = module_nextcu_(module, nullptr, &bias);
    for (; die != nullptr; die = module_nextcu_(module, die, &bias)) {
      Dwarf_Addr base = 0, begin = 0, end = 0;
      ptrdiff_t at = ranges_(die, 0, &base, &begin, &end);
      for (; at > 0; at = ranges_(die, at, &base, &begin, &end)) {
        units.emplace(begin + bias, Unit{end + bias, bias, die});
      }
    }
    return units;
  }

  const char* StringOf(Dwarf_Die* die, unsigned name) const {
    Dwarf_Attribute attribute;
    return formstring_(attr_integrate_(die, name, &attribute));
  }
  Dwarf_Word NumberOf(Dwarf_Die* die, unsigned name) const {
    Dwarf_Attribute attribute;
    Dwarf_Word number = 0;
    formudata_(attr_(die, name, &attribute), &number);
    return number;
  }
  // An inlined function, and one that is defined outside of its class, refer to
  // the entry that has its name and its scope.
  Dwarf_Die DeclarationOf(const Dwarf_Die* function) const {
    Dwarf_Die declaration = *function;
    Dwarf_Attribute attribute;
    Dwarf_Die other;
    for (const unsigned link : {DW_AT_abstract_origin, DW_AT_specification}) {
      if (formref_die_(attr_(&declaration, link, &attribute), &other) !=
          nullptr) {
        declaration = other;
      }
    }
    return declaration;
  }
  // Functions of C, and those of local classes, have no linkage name.
  std::string NameOf(Dwarf_Die* function) const {
    const char* const symbol = StringOf(function, DW_AT_linkage_name);
    if (symbol != nullptr) return FunctionName(symbol);
    Dwarf_Die declaration = DeclarationOf(function);
    const char* const own = diename_(&declaration);
    std::string name = own == nullptr ? "" : own;
    Dwarf_Die* given = nullptr;
    const int count = getscopes_die_(&declaration, &given);
    const std::unique_ptr<Dwarf_Die, Free> scopes(count > 0 ? given : nullptr);
    for (int i = 1; i < count; ++i) {
      Dwarf_Die* const scope = scopes.get() + i;
      const int tag = tag_(scope);
      if (tag == DW_TAG_subprogram) return NameOf(scope) + "::" + name;
      const char* const scope_name = diename_(scope);
      if (tag == DW_TAG_namespace) {
        name = (scope_name == nullptr ? "(anonymous namespace)"
                                      : std::string(scope_name)) +
               "::" + name;
      } else if (tag == DW_TAG_class_type || tag == DW_TAG_structure_type) {
        if (scope_name == nullptr ||
            std::strncmp(scope_name, "<lambda", 7) == 0) {
          name = "{lambda}";
        } else {
          name = std::string(scope_name) + "::" + name;
        }
      }
    }
    return name;
  }
  std::string FolderOf(Dwarf_Die* unit) const {
    const char* const folder = StringOf(unit, DW_AT_comp_dir);
    return folder == nullptr ? "" : std::string(folder) + "/";
  }
  // Sets the file and the folder of a place.  A path that begins with the
  // compiler's folder loses the folder, since __FILE__ has none where the
  // compiler got a relative path.
  static void SetFile(const char* file, const std::string& folder,
                      CodePlace* place) {
    std::string_view path = file == nullptr ? "" : file;
    if (path.substr(0, folder.size()) == folder) {
      path.remove_prefix(folder.size());
    }
    place->file = path;
    const bool is_relative = !path.empty() && path[0] != '/';
    place->folder = is_relative ? folder : "";
  }

  // Adds the entries below `parent` that have the code, the innermost first.
  // dwarf_getscopes finds no functions in a namespace, where clang puts them.
  bool AddScopes(Dwarf_Die* parent, Dwarf_Addr pc,
                 std::vector<Dwarf_Die>* scopes) const {
    Dwarf_Die die;
    int end = child_(parent, &die);
    for (; end == 0; end = siblingof_(&die, &die)) {
      const bool has_code = haspc_(&die, pc) > 0;
      if (!has_code && tag_(&die) != DW_TAG_namespace) continue;
      const bool is_found = AddScopes(&die, pc, scopes);
      if (has_code) scopes->push_back(die);
      if (has_code || is_found) return true;
    }
    return false;
  }

  // The functions that have the code at `pc`, of which `here` has the line.
  std::vector<CodePlace> WithInlined(Dwarf_Die* unit, Dwarf_Addr pc,
                                     const std::string& folder,
                                     CodePlace here) {
    std::vector<Dwarf_Die> scopes;
    AddScopes(unit, pc, &scopes);
    Dwarf_Files* files = nullptr;
    if (getsrcfiles_(unit, &files, nullptr) != 0) files = nullptr;
    std::vector<CodePlace> places;
    const std::string symbol = std::exchange(here.function, "");
    for (Dwarf_Die& die : scopes) {
      Dwarf_Die* const scope = &die;
      const int tag = tag_(scope);
      if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram) {
        continue;
      }
      here.function =
          tag == DW_TAG_subprogram && !symbol.empty() ? symbol : NameOf(scope);
      places.push_back(here);
      if (tag == DW_TAG_subprogram) break;
      here.line = static_cast<int>(NumberOf(scope, DW_AT_call_line));
      const Dwarf_Word file = NumberOf(scope, DW_AT_call_file);
      SetFile(
          files == nullptr ? nullptr : filesrc_(files, file, nullptr, nullptr),
          folder, &here);
    }
    if (places.empty()) {
      // There are lines and no functions, as with clang's -g1.
      here.function = symbol;
      places.push_back(std::move(here));
    }
    return places;
  }

  Dwfl_Callbacks callbacks_ = {};
  Dwfl* process_ = nullptr;  // nullptr: nothing is known of modules
  std::unordered_map<Dwfl_Module*, Units> units_;
  decltype(&dwfl_begin) begin_ = nullptr;
  decltype(&dwfl_end) end_ = nullptr;
  decltype(&dwfl_report_begin_add) report_begin_add_ = nullptr;
  decltype(&dwfl_linux_proc_report) linux_proc_report_ = nullptr;
  decltype(&dwfl_report_end) report_end_ = nullptr;
  decltype(&dwfl_addrmodule) addrmodule_ = nullptr;
  decltype(&dwfl_module_addrname) module_addrname_ = nullptr;
  decltype(&dwfl_module_addrdie) module_addrdie_ = nullptr;
  decltype(&dwfl_module_nextcu) module_nextcu_ = nullptr;
  decltype(&dwarf_ranges) ranges_ = nullptr;
  decltype(&dwarf_getsrc_die) getsrc_die_ = nullptr;
  decltype(&dwarf_linesrc) linesrc_ = nullptr;
  decltype(&dwarf_lineno) lineno_ = nullptr;
  decltype(&dwarf_child) child_ = nullptr;
  decltype(&dwarf_siblingof) siblingof_ = nullptr;
  decltype(&dwarf_haspc) haspc_ = nullptr;
  decltype(&dwarf_getscopes_die) getscopes_die_ = nullptr;
  decltype(&dwarf_tag) tag_ = nullptr;
  decltype(&dwarf_attr) attr_ = nullptr;
  decltype(&dwarf_attr_integrate) attr_integrate_ = nullptr;
  decltype(&dwarf_formstring) formstring_ = nullptr;
  decltype(&dwarf_formudata) formudata_ = nullptr;
  decltype(&dwarf_formref_die) formref_die_ = nullptr;
  decltype(&dwarf_diename) diename_ = nullptr;
  decltype(&dwarf_getsrcfiles) getsrcfiles_ = nullptr;
  decltype(&dwarf_filesrc) filesrc_ = nullptr;
};

#else  // the build had no headers of libdw

class CodePlaces::Lines {
 public:
  static std::unique_ptr<Lines> Open(const char*) { return nullptr; }
  void Forget() {}
  std::vector<CodePlace> At(const void*, const CodePlace& place) {
    return {place};
  }
};

#endif

CodePlaces::CodePlaces(const char* library) : library_(library) {}
CodePlaces::~CodePlaces() = default;

bool CodePlaces::IsBusy() const {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  return !lock.owns_lock();
}

void CodePlaces::Load() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!std::exchange(is_loaded_, true)) lines_ = Lines::Open(library_);
}

std::vector<CodePlace> CodePlaces::At(const void* instruction) {
  Load();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const uint64_t unloads = Unloads(); unloads_ != unloads) {
    unloads_ = unloads;
    known_.clear();
    if (lines_ != nullptr) lines_->Forget();
  }
  const auto known = known_.find(instruction);
  if (known != known_.end()) return known->second;
  CodePlace place = ModulePlace(instruction);
  if (place.module.empty()) return {};
  std::vector<CodePlace> places;
  if (lines_ != nullptr) {
    places = lines_->At(instruction, place);
  } else {
    place.function = ExportedFunction(instruction);
    places.push_back(std::move(place));
  }
  known_.emplace(instruction, places);
  return places;
}

}  // namespace devrt::race
