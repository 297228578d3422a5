// SPDX-License-Identifier: Apache-2.0
#include "tools/topo/machine_links.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>

#include "absl/strings/str_format.h"

namespace devrt::tools {
namespace {

namespace fs = std::filesystem;

struct LinkWords {
  const char* code;
  const char* meaning;
};
constexpr LinkWords kLinks[] = {
    {"?", "over a link that this machine does not tell"},
    {"SIM", "simulated"},
    {"NV", "over NVLink"},
    {"XGMI", "over XGMI"},
    {"PXB", "over PCIe switches, not through the host bridge"},
    {"PHB", "over PCIe, through one host bridge of the processor"},
    {"NODE", "over PCIe, through two host bridges of one NUMA node"},
    {"SYS", "over PCIe and between NUMA nodes"},
};

const LinkWords& WordsOf(LinkKind kind) {
  return kLinks[static_cast<size_t>(kind)];
}

// The first line of the file; empty if there is no such file.
std::string Line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// The number after `name` in a KFD file, whose lines are a name and a number; 0
// if the file lacks it.
uint64_t Property(const fs::path& file, const std::string& wanted) {
  std::ifstream in(file);
  std::string name;
  uint64_t value = 0;
  while (in >> name >> value) {
    if (name == wanted) return value;
  }
  return 0;
}

// Subfolders whose names begin with `prefix`; empty if the folder cannot be
// read.
std::set<fs::path> Folders(const fs::path& folder, const std::string& prefix) {
  std::set<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.compare(0, prefix.size(), prefix) == 0 &&
        name.size() > prefix.size() && name[prefix.size()] >= '0' &&
        name[prefix.size()] <= '9') {
      found.insert(at->path());
    }
  }
  return found;
}

}  // namespace

const char* LinkCode(LinkKind kind) { return WordsOf(kind).code; }
const char* LinkMeaning(LinkKind kind) { return WordsOf(kind).meaning; }

// The four functions of libnvidia-ml that tell if two GPUs have an NVLink,
// declared as in nvml.h.
struct MachineLinks::Nvml {
  using Handle = void*;
  static constexpr int kNvlinkCapability = 2;  // NVML_P2P_CAPS_INDEX_NVLINK
  int (*init)();
  int (*shutdown)();
  int (*handle)(const char* address, Handle* device);
  int (*p2p_status)(Handle, Handle, int capability, int* status);

  // nullptr if the library is missing or does not answer.
  static Nvml* Open() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    auto nvml = std::make_unique<Nvml>();
    const auto find = [&](auto* function, const char* name) {
      *function = reinterpret_cast<std::decay_t<decltype(*function)>>(
          dlsym(library, name));
      return *function != nullptr;
    };
    const bool is_whole =
        find(&nvml->init, "nvmlInit_v2") &&
        find(&nvml->shutdown, "nvmlShutdown") &&
        find(&nvml->handle, "nvmlDeviceGetHandleByPciBusId_v2") &&
        find(&nvml->p2p_status, "nvmlDeviceGetP2PStatus");
    return is_whole && nvml->init() == 0 ? nvml.release() : nullptr;
  }

  bool Joins(const std::string& a, const std::string& b) const {
    Handle first = nullptr;
    Handle second = nullptr;
    int status = -1;
    return handle(a.c_str(), &first) == 0 && handle(b.c_str(), &second) == 0 &&
           p2p_status(first, second, kNvlinkCapability, &status) == 0 &&
           status == 0;
  }
};

MachineLinks::MachineLinks(std::string sysfs)
    : sysfs_(std::move(sysfs)), nvml_(Nvml::Open()) {
  numa_nodes_ = static_cast<int>(
      Folders(fs::path(sysfs_) / "devices/system/node", "node").size());
  ReadXgmi();
}

MachineLinks::~MachineLinks() {
  if (nvml_ == nullptr) return;
  nvml_->shutdown();
  delete nvml_;
}

// Linux's driver for AMD GPUs lists nodes and their links.
void MachineLinks::ReadXgmi() {
  constexpr uint64_t kXgmi = 11;  // HSA_IOLINK_TYPE_XGMI
  const std::set<fs::path> nodes =
      Folders(fs::path(sysfs_) / "class/kfd/kfd/topology/nodes", "");
  const auto address_of = [](const fs::path& node) {
    const uint64_t at = Property(node / "properties", "location_id");
    return absl::StrFormat("%04x:%02x:%02x.%x",
                           Property(node / "properties", "domain"),
                           at >> 8 & 0xff, at >> 3 & 0x1f, at & 7);
  };
  for (const fs::path& node : nodes) {
    for (const fs::path& link : Folders(node / "io_links", "")) {
      if (Property(link / "properties", "type") != kXgmi) continue;
      const uint64_t to = Property(link / "properties", "node_to");
      xgmi_.emplace(address_of(node),
                    address_of(node.parent_path() / std::to_string(to)));
    }
  }
}

PciPlace MachineLinks::PlaceOf(const std::string& address) const {
  PciPlace place;
  const fs::path link = fs::path(sysfs_) / "bus/pci/devices" / address;
  std::error_code error;
  const fs::path real = fs::canonical(link, error);
  if (address.empty() || error) return place;
  place.path = real;
  const std::string node = Line(real / "numa_node");
  if (!node.empty()) place.numa_node = std::atoi(node.c_str());
  place.cpus = Line(real / "local_cpulist");
  return place;
}

LinkKind MachineLinks::LinkBetween(const std::string& address,
                                   const std::string& other) const {
  if (address.empty() || other.empty()) return LinkKind::kUnknown;
  if (nvml_ != nullptr && nvml_->Joins(address, other)) {
    return LinkKind::kNvlink;
  }
  if (xgmi_.count({address, other}) != 0) return LinkKind::kXgmi;
  const PciPlace a = PlaceOf(address);
  const PciPlace b = PlaceOf(other);
  if (a.path.empty() || b.path.empty()) return LinkKind::kUnknown;
  // The path has the host bridge, "pci0000:15", and then the bridges below it.
  const fs::path first(a.path);
  const fs::path second(b.path);
  auto [left, right] =
      std::mismatch(first.begin(), first.end(), second.begin(), second.end());
  bool shares_host_bridge = false;
  bool shares_switch = false;
  for (auto at = first.begin(); at != left; ++at) {
    shares_switch = shares_host_bridge;
    shares_host_bridge |= at->string().compare(0, 3, "pci") == 0;
  }
  if (shares_switch) return LinkKind::kPcieSwitch;
  if (shares_host_bridge) return LinkKind::kHostBridge;
  if (a.numa_node < 0 || b.numa_node < 0) return LinkKind::kUnknown;
  return a.numa_node == b.numa_node ? LinkKind::kNode : LinkKind::kSystem;
}

}  // namespace devrt::tools
