// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "devrt/runtime/device.h"
#include "python/src/bindings.h"
#include "python/src/public_class.h"

namespace devrt::python {
namespace {

struct Uuid {
  std::string text;
  std::array<uint8_t, 16> bytes;
};

Uuid UuidOf(const DeviceProperties& properties) {
  return {properties.uuid_string(), properties.uuid};
}

DeviceProperties PropertiesOf(nb::object device) {
  const Device of = DeviceOf(device.ptr());
  return Check(WithoutLock([&] { return of.Properties(); }));
}

std::string PciBusId(const DeviceProperties& p) {
  char text[32];
  std::snprintf(text, sizeof(text), "%04x:%02x:%02x.0", p.pci_domain, p.pci_bus,
                p.pci_device);
  return text;
}

void BindUuid(nb::module_& module) {
  nb::class_<Uuid> uuid(module, "Uuid",
                        "A device's UUID. str() has 36 characters.");
  MakePublic(uuid, "devrt",
             "a devrt.Uuid cannot be pickled or copied: take str(uuid) or "
             "uuid.bytes");
  uuid.def("__str__", [](const Uuid& self) { return self.text; })
      .def("__repr__",
           [](const Uuid& self) { return "devrt.Uuid('" + self.text + "')"; })
      .def_prop_ro(
          "bytes",
          [](const Uuid& self) {
            return nb::bytes(reinterpret_cast<const char*>(self.bytes.data()),
                             self.bytes.size());
          },
          "Its 16 bytes.")
      .def("__eq__",
           [](const Uuid& self, nb::object other) {
             return nb::isinstance<Uuid>(other) &&
                    nb::cast<const Uuid&>(other).bytes == self.bytes;
           })
      .def("__hash__", [](const Uuid& self) {
        return nb::hash(nb::str(self.text.c_str()));
      });
}

}  // namespace

void BindProperties(nb::module_& module) {
  using P = DeviceProperties;
  BindUuid(module);
  nb::class_<P> properties(module, "DeviceProperties",
                           "Properties of a device.  Equal for equal devices.");
  MakePublic(properties, "devrt",
             "devrt.DeviceProperties cannot be pickled or copied: take the "
             "values that are needed");
  properties.def_ro("name", &P::name, "\"NVIDIA H200\"")
      .def_ro("arch", &P::arch, "\"sm_90\", \"gfx942\", \"mtia-sim\"")
      .def_prop_ro("uuid", &UuidOf, "A Uuid.")
      .def_prop_ro("pci_bus_id", &PciBusId, "\"0000:3b:00.0\"")
      .def_ro("major", &P::compute_major,
              "Major version of the compute capability, or 0.")
      .def_ro("minor", &P::compute_minor,
              "Minor version of the compute capability, or 0.")
      .def_ro("multi_processor_count", &P::multiprocessors)
      .def_ro("total_memory", &P::total_memory, "In bytes.")
      .def_ro("overhead_bytes", &P::overhead_bytes,
              "Bytes of total_memory that cannot be allocated.")
      .def_ro("alloc_alignment", &P::alloc_alignment, "In bytes.")
      .def_ro("copy_engines", &P::copy_engines)
      .def_ro("priority_least", &P::priority_least)
      .def_ro("priority_greatest", &P::priority_greatest,
              "The most urgent priority, which is the lowest number.")
      .def_ro("queue_depth", &P::queue_depth,
              "Number of operations that a stream holds, or 0 without a limit.")
      .def_ro("elapsed_resolution_ns", &P::elapsed_resolution_ns)
      .def("__eq__",
           [](const P& self, nb::object other) {
             return nb::isinstance<P>(other) &&
                    nb::cast<const P&>(other) == self;
           })
      .def("__hash__",
           [](const P& self) {
             return nb::hash(nb::str(self.uuid_string().c_str()));
           })
      .def("__repr__", [](const P& self) {
        return "devrt.DeviceProperties(name='" + self.name + "', arch='" +
               self.arch +
               "', total_memory=" + std::to_string(self.total_memory >> 20) +
               " MiB)";
      });
  module.def("get_device_properties", &PropertiesOf,
             nb::arg("device") = nb::none(),
             "Returns the DeviceProperties of `device`.  Creates no context.");
}

}  // namespace devrt::python
