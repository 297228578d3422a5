// SPDX-License-Identifier: Apache-2.0
//
// The validate layer, for devrt.validate and devrt.testing.

#include "devrt/streams/validate.h"

#include <cstdint>
#include <string>
#include <vector>

#include "devrt/streams/sync.h"
#include "python/src/bindings.h"
#include "python/src/call_site.h"
#include "tools/timeline/finding_picture.h"

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

// `json`: of a finding.  None for one that has no picture.
nb::object FindingSvg(const std::string& json) {
  const tools::CheckedRun run = tools::ReadFindings(json);
  if (run.findings.size() != 1) {
    throw nb::value_error("expected the JSON of one finding");
  }
  if (!run.findings[0].IsOfPair()) return nb::none();
  return ToText(SvgTimeline(tools::FindingPicture(run.findings[0])));
}

// The threads of Python (devrt/_host_order.py).  The lock of the detector is
// never held while a thread waits for the interpreter's lock.
const void* ObjectOf(uint64_t number) {
  return reinterpret_cast<const void*>(number);
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
  module.def("_finding_svg", &FindingSvg, nb::arg("json"));
  module.def(
      "_sync_release", [](uint64_t number) { sync::Release(ObjectOf(number)); },
      nb::arg("number"));
  module.def(
      "_sync_acquire", [](uint64_t number) { sync::Acquire(ObjectOf(number)); },
      nb::arg("number"));
  module.def("_has_exact_host_order",
             [] { return sync::GetHostOrder() == sync::HostOrder::kExact; });
  module.def(
      "_set_exact_host_order",
      [](bool is_exact) {
        Check(sync::SetHostOrder(is_exact ? sync::HostOrder::kExact
                                          : sync::HostOrder::kObserved));
      },
      nb::arg("is_exact"));
  nb::class_<FindingScope>(module, "_FindingScope")
      .def(nb::init<>())
      .def("findings", &FindingScope::Findings);
}

}  // namespace devrt::python
