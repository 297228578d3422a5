// SPDX-License-Identifier: Apache-2.0
//
// The validate layer, for devrt.validate and devrt.testing.

#include "devrt/streams/validate.h"

#include <string>
#include <vector>

#include "python/src/bindings.h"
#include "python/src/call_site.h"

namespace devrt::python {
namespace {

// (address, bytes, mode) for each range; mode is DEVRT_ACCESS_*.
std::vector<Access> AccessesOf(nb::list ranges) {
  std::vector<Access> accesses;
  for (nb::handle range : ranges) {
    accesses.push_back({AddressOf(range[0], "address"),
                        BytesOf(range[1], "bytes"),
                        static_cast<uint32_t>(CountOf(range[2], "mode")), 0});
  }
  return accesses;
}

void UseOnHostNow(nb::list ranges) {
  const std::vector<Access> accesses = AccessesOf(ranges);
  const SiteHere site;
  Check(WithoutLock([&] { return validate::UseOnHost(accesses, site); }));
}

void AnnotateWorkOn(nb::object stream, nb::list ranges,
                    const std::string& name) {
  const StreamRef on = StreamOf(stream.ptr());
  const std::vector<Access> accesses = AccessesOf(ranges);
  const SiteHere site;
  Check(WithoutLock([&] {
    return validate::AnnotateWork(on, accesses, name.c_str(), site);
  }));
}

void AnnotateOrderOf(nb::object earlier, nb::object later) {
  const StreamRef from = StreamOf(earlier.ptr());
  const StreamRef to = StreamOf(later.ptr());
  const SiteHere site;
  Check(WithoutLock([&] { return validate::AnnotateOrder(from, to, site); }));
}

class FindingScope {
 public:
  // (id, kind, text, json) for each finding.
  nb::list Findings() const {
    nb::list list;
    for (const validate::Finding& finding :
         WithoutLock([&] { return scope_.Findings(); })) {
      list.append(nb::make_tuple(ToText(finding.id), ToText(finding.kind),
                                 ToText(finding.text), ToText(finding.json)));
    }
    return list;
  }

 private:
  validate::Scope scope_;
};

}  // namespace

void BindValidate(nb::module_& module) {
  module.def("_enable_validation",
             [] { Check(WithoutLock([] { return validate::Enable(); })); });
  module.def("_is_validated", [] { return validate::IsActive(); });
  module.def("_use_on_host", &UseOnHostNow, nb::arg("ranges"));
  module.def("_annotate_work", &AnnotateWorkOn, nb::arg("stream"),
             nb::arg("ranges"), nb::arg("name"));
  module.def("_annotate_order", &AnnotateOrderOf, nb::arg("earlier"),
             nb::arg("later"));
  nb::class_<FindingScope>(module, "_FindingScope")
      .def(nb::init<>())
      .def("findings", &FindingScope::Findings);
}

}  // namespace devrt::python
