// SPDX-License-Identifier: Apache-2.0
//
// devrt.elementwise/0: which operations exist, refusals, and order.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/objects.h"
#include "cts/tensors.h"

namespace devrt::cts {
namespace elementwise_rules_tests {
namespace {

using Kernels = ElementwiseKernels;

void NoElements(Test& t) {
  const Kernels kernels(t);
  const RawStream s(t, t.device());
  const int64_t shape[] = {3, 0, 2};
  const int64_t strides[] = {8, 8, -8};
  devrt_tensor_v0 none = {nullptr, shape, strides, 3, DEVRT_FLOAT32};
  const float value = 1;
  t.Ok(kernels.Fill(s, none, &value), "a fill of no elements");
  t.Ok(kernels.Apply(s, DEVRT_OP_ADD, none, {none, none}),
       "an addition of no elements");
  none.strides = nullptr;
  t.Ok(kernels.Apply(s, DEVRT_OP_NEG, none, {none}),
       "a negation of no elements");
  s.Sync();
}

void Supported(Test& t) {
  const Kernels kernels(t);
  for (const uint32_t op : Ops()) {
    for (const uint32_t dtype : Dtypes()) {
      const bool where = op == DEVRT_OP_WHERE;
      const bool known = kernels.Supports(op, dtype);
      if (where && IsFloat8(dtype)) continue;  // left open
      t.Expect(known == HasOp(op, dtype),
               absl::StrCat(OpName(op), " of ", DtypeName(dtype),
                            known ? " does not exist" : " exists"));
    }
  }
  t.Expect(!kernels.Supports(999, DEVRT_INT32), "operation 999 does not exist");
  t.Expect(!kernels.Supports(DEVRT_OP_ADD, 0x7777), "nor does dtype 0x7777");
}

void Refused(Test& t) {
  const Kernels kernels(t);
  Arena arena(t, t.device());
  const RawStream s(t, t.device());
  const View a = arena.Place(DEVRT_INT32, {4, 3}, Layout::kContiguous);
  const View b = arena.Place(DEVRT_INT32, {3, 4}, Layout::kContiguous);
  const View f = arena.Place(DEVRT_FLOAT32, {4, 3}, Layout::kContiguous);
  const View y = arena.Place(DEVRT_BOOL, {4, 3}, Layout::kContiguous);
  const View c = arena.Place(DEVRT_COMPLEX64, {4, 3}, Layout::kContiguous);
  arena.Upload(s);
  const auto of = [&](const View& view) { return arena.Describe(view); };
  const auto refused = [&](const Result& result, const char* what) {
    t.Code(result, DEVRT_INVALID_ARGUMENT, what);
  };
  refused(kernels.Apply(s, DEVRT_OP_ADD, of(a), {of(a), of(b)}),
          "inputs of another shape");
  refused(kernels.Apply(s, DEVRT_OP_ADD, of(a), {of(a), of(f)}),
          "inputs of two dtypes");
  refused(kernels.Apply(s, DEVRT_OP_ADD, of(f), {of(a), of(a)}),
          "an output of another dtype");
  refused(kernels.Apply(s, DEVRT_OP_ADD, of(a), {of(a)}), "one input of two");
  refused(kernels.Apply(s, DEVRT_OP_NEG, of(a), {of(a), of(a)}),
          "two inputs of one");
  refused(kernels.Apply(s, DEVRT_OP_NEG, of(y), {of(y)}),
          "a negation of bools");
  refused(kernels.Apply(s, DEVRT_OP_LT, of(y), {of(c), of(c)}),
          "an order of complex numbers");
  refused(kernels.Apply(s, DEVRT_OP_WHERE, of(a), {of(a), of(a), of(a)}),
          "a condition that is no bool");
  refused(kernels.Apply(s, 999, of(a), {of(a)}), "an unknown operation");
  devrt_tensor_v0 bad = of(a);
  bad.data = nullptr;
  refused(kernels.Apply(s, DEVRT_OP_NEG, bad, {of(a)}), "elements at NULL");
  bad = of(a);
  bad.ndim = DEVRT_MAX_DIMS + 1;
  refused(kernels.Apply(s, DEVRT_OP_NEG, bad, {of(a)}), "33 dimensions");
  bad = of(a);
  bad.dtype = 0x7777;
  refused(kernels.Apply(s, DEVRT_OP_NEG, bad, {of(a)}), "an unknown dtype");
  const int64_t far[] = {INT64_MAX / 2, 4};
  bad = of(a);
  bad.strides = far;
  refused(kernels.Apply(s, DEVRT_OP_NEG, bad, {of(a)}),
          "bytes outside the address space");
  const std::vector<uint8_t> before(arena.begin(),
                                    arena.begin() + arena.used());
  arena.Download(s);
  t.Expect(std::equal(before.begin(), before.end(), arena.begin()),
           "calls that are refused change nothing");
}

void IsAsynchronous(Test& t) {
  const Kernels kernels(t);
  Arena arena(t, t.device());
  const RawStream s(t, t.device());
  const Reader reader(t, t.device(), 12);
  View out = arena.Place(DEVRT_INT32, {3}, Layout::kContiguous);
  const int32_t zeros[3] = {};
  std::memcpy(arena.At(out, 0), zeros, sizeof zeros);
  arena.Upload(s);
  s.Sync();
  Gate gate(t);
  gate.Hold(s);
  int32_t value = 5;
  {
    Shape shape = {3}, strides = {4};
    devrt_tensor_v0 tensor = arena.Describe(out);
    tensor.shape = shape.data();
    tensor.strides = strides.data();
    t.Require(kernels.Fill(s, tensor, &value), "fill");
    t.Require(kernels.Apply(s, DEVRT_OP_ADD, tensor, {tensor, tensor}),
              "addition");
    // The caller may now overwrite the descriptors and the value.
    shape[0] = 1000;
    strides[0] = 1 << 20;
    tensor.data = nullptr;
    value = 9;
  }
  t.Settle();
  t.Expect(!s.Query(), "kernels behind a held stream are not complete");
  t.Expect(reader.Holds(arena.Describe(out).data, 0), "nor have they run");
  gate.Open();
  arena.Download(s);
  const int32_t want[3] = {10, 10, 10};
  t.Expect(std::memcmp(arena.At(out, 0), want, sizeof want) == 0,
           "they run in stream order, with what the call was given");
}

constexpr TestCase kTests[] = {
    {"extension.elementwise_no_elements", "",
     "An output without elements succeeds and does nothing.", &NoElements},
    {"extension.elementwise_supports", "",
     "The operations exist for the dtypes that the header says.", &Supported},
    {"extension.elementwise_refusals", "",
     "A call with arguments that do not fit is INVALID_ARGUMENT and changes "
     "nothing.",
     &Refused},
    {"extension.elementwise_is_asynchronous", "",
     "Kernels are stream-ordered and asynchronous; descriptors are copied.",
     &IsAsynchronous, 0, kNeedsGate},
};

}  // namespace
}  // namespace elementwise_rules_tests

absl::Span<const TestCase> ElementwiseRulesTests() {
  return elementwise_rules_tests::kTests;
}

}  // namespace devrt::cts
