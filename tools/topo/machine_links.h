// SPDX-License-Identifier: Apache-2.0
//
// Links between devices of this machine, from Linux and NVIDIA's management
// library: NUMA nodes, PCIe, XGMI and NVLink.

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
  kPcieSwitch,  // through switches, not through the host bridge
  kHostBridge,
  kNode,    // two host bridges in one NUMA node
  kSystem,  // two NUMA nodes
};

// "NV", "PXB": a short name for the matrix.
const char* LinkCode(LinkKind kind);
// "over NVLink"
const char* LinkMeaning(LinkKind kind);

struct PciPlace {
  std::string path;    // from the host bridge to the device; empty: unknown
  int numa_node = -1;  // -1: unknown
  std::string cpus;    // "0-47": the processors near the device
};

// Every `address` is the address of a PCI function, "0000:18:00.0".
class MachineLinks {
 public:
  explicit MachineLinks(std::string sysfs = "/sys");
  ~MachineLinks();
  MachineLinks(const MachineLinks&) = delete;
  MachineLinks& operator=(const MachineLinks&) = delete;

  PciPlace PlaceOf(const std::string& address) const;
  // The fastest known link.
  LinkKind LinkBetween(const std::string& address,
                       const std::string& other) const;

  // The number of NUMA nodes; 0: Linux lists none.
  int numa_nodes() const { return numa_nodes_; }
  // True if NVIDIA's library answers.  Without it no NVLink is found.
  bool sees_nvlink() const { return nvml_ != nullptr; }

 private:
  struct Nvml;
  void ReadXgmi();

  const std::string sysfs_;
  int numa_nodes_ = 0;
  std::set<std::pair<std::string, std::string>> xgmi_;  // pairs of addresses
  Nvml* nvml_;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TOPO_MACHINE_LINKS_H_
