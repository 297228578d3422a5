// SPDX-License-Identifier: Apache-2.0
//
// What differs between NCCL and RCCL: names, and what devrt knows of them.
// Their functions are alike (abi.h), so one provider serves both.

#ifndef DEVRT_COLLECTIVES_NCCL_FLAVOR_H_
#define DEVRT_COLLECTIVES_NCCL_FLAVOR_H_

namespace devrt::collectives::nccl {

struct Flavor {
  const char* name;        // in messages
  const char* provider;    // in devrt_collectives_info_v0
  const char* backend;     // whose devices it takes
  const char* soname;      // of the library
  const char* variable;    // of the environment, with a path of the library
  const char* (*named)();  // the value of the variable, or nullptr
  const char* remedy;      // where to get the library
  const char* all_to_all;  // the name of this function
  // The first version that has the float8 dtypes of devrt; 0: none.
  int float8_version;
  // The first version in which ranks may share a device; 0: none.
  int shared_device_version;
  // The first version that keeps the order between communicators of a device by
  // itself, if the user's NCCL_LAUNCH_ORDER_IMPLICIT is 1; 0: none.
  int launch_order_version;
  // Its calls may block (BlockingComm): tried with the library itself.
  bool calls_may_block;
  // An operation inside a group needs no device of its own to be current, as
  // NCCL's guide says of group calls: the end of the group makes that of each
  // communicator current.  But for a default stream, whose handle means that of
  // the current device, and for a communicator with one rank (submit.cc).
  bool groups_find_devices;
};

extern const Flavor kNccl;
// Compiled, and tested with a library of the tests; never run on AMD hardware.
extern const Flavor kRccl;

}  // namespace devrt::collectives::nccl

#endif  // DEVRT_COLLECTIVES_NCCL_FLAVOR_H_
