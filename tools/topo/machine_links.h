// SPDX-License-Identifier: Apache-2.0
//
// What joins two devices of this machine, as Linux and NVIDIA's management
// library tell it: NUMA nodes, PCIe, XGMI and NVLink.

#ifndef DEVRT_TOOLS_TOPO_MACHINE_LINKS_H_
#define DEVRT_TOOLS_TOPO_MACHINE_LINKS_H_

#include <map>
#include <set>
#include <string>
#include <utility>

namespace devrt::tools {

enum class LinkKind {
  kUnknown,
  kSimulated,
  kNvlink,
  kXgmi,
  kPcieSwitch,  // without the host bridge
  kHostBridge,
  kNode,    // two host bridges of one NUMA node
  kSystem,  // two NUMA nodes
};

// "NV", "PXB": as short as a column of the matrix.
const char* LinkCode(LinkKind kind);
// "over NVLink"
const char* LinkMeaning(LinkKind kind);

struct PciPlace {
  std::string path;    // of the device below the host bridge; empty: unknown
  int numa_node = -1;  // -1: not told
  std::string cpus;    // "0-47": those near to it
};

// `address` of all functions is that of a PCI function, "0000:18:00.0".
class MachineLinks {
 public:
  explicit MachineLinks(std::string sysfs = "/sys");
  ~MachineLinks();
  MachineLinks(const MachineLinks&) = delete;
  MachineLinks& operator=(const MachineLinks&) = delete;

  PciPlace PlaceOf(const std::string& address) const;
  // The fastest of the links that are known.
  LinkKind Between(const std::string& address, const std::string& other) const;

  // Of the machine; 0: Linux tells nothing of them.
  int numa_nodes() const { return numa_nodes_; }
  // Whether NVIDIA's library answers, without which no NVLink is seen.
  bool sees_nvlink() const { return nvml_ != nullptr; }

 private:
  struct Nvml;
  void ReadXgmi();

  const std::string sysfs_;
  int numa_nodes_ = 0;
  std::set<std::pair<std::string, std::string>> xgmi_;  // addresses
  Nvml* nvml_;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TOPO_MACHINE_LINKS_H_
