// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "devrt/streams/stream_pool.h"
#include "python/src/bindings.h"
#include "python/src/call_site.h"
#include "python/src/public_class.h"

namespace devrt::python {
namespace {

// A pool that its streams keep alive.  Its destructor calls the driver.
class Pool {
 public:
  Pool(nb::object device, nb::object size, nb::object priority,
       nb::object blocking) {
    StreamOptions options;
    const int64_t count = IntOf(size, "size");
    const int64_t urgency = IntOf(priority, "priority");
    if (!ToBool(blocking.ptr(), "blocking", &options.blocking)) {
      ThrowPythonError();
    }
    options.priority = static_cast<int>(
        urgency < INT32_MIN ? INT32_MIN
                            : (urgency > INT32_MAX ? INT32_MAX : urgency));
    device_ = ParseDevice(device.ptr());
    if (device_ == nullptr) ThrowPythonError();
    if (count < 0) {
      Check(absl::InvalidArgumentError("size is " + std::to_string(count) +
                                       ", expected 1 to 65536 streams"));
    }
    const Device of = device_->device;
    const SiteHere site;
    auto made = Check(WithoutLock([&] {
      return StreamPool::Create(of, static_cast<size_t>(count), options, site);
    }));
    pool_ = std::make_shared<StreamPool>(std::move(made));
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    if (pool_ == nullptr) return;
    std::shared_ptr<StreamPool> ending = std::move(pool_);
    const Unlocked unlocked;
    ending.reset();
  }

  nb::object Next() {
    const StreamRef ref = pool_->Next();
    auto handle = std::make_shared<StreamHandle>();
    handle->keep = pool_;
    PyObject* stream = MakeStream(nullptr, ref, device_, std::move(handle));
    if (stream == nullptr) ThrowPythonError();
    return nb::steal(stream);
  }
  size_t size() const { return pool_->size(); }
  std::string Text() const {
    return "devrt.StreamPool('" + device_->device.name() + "', " +
           std::to_string(size()) + ")";
  }
  nb::object device() const { return ToObject(device_->device); }

 private:
  DeviceObject* device_ = nullptr;
  std::shared_ptr<StreamPool> pool_;
};

}  // namespace

void BindPool(nb::module_& module) {
  nb::class_<Pool> pool(
      module, "StreamPool",
      "A fixed number of streams, handed out round robin.\n\n"
      "StreamPool(device=None, size=4, *, priority=0, blocking=False)\n\n"
      "Unlike Stream(), a pool shares streams: its first and its (size + "
      "1)-th\n"
      "request get one stream, so two users may order each other by accident.");
  MakePublic(pool, "devrt",
             "a devrt.StreamPool cannot be pickled or copied: make one of its "
             "device and size where it is needed");
  pool.def(nb::init<nb::object, nb::object, nb::object, nb::object>(),
           nb::arg("device") = nb::none(), nb::arg("size") = 4, nb::kw_only(),
           nb::arg("priority") = 0, nb::arg("blocking") = false)
      .def("next", &Pool::Next, "Returns the next stream.")
      .def("__len__", &Pool::size)
      .def("__repr__", &Pool::Text)
      .def_prop_ro("device", &Pool::device, "The device of all its streams.");
}

}  // namespace devrt::python
