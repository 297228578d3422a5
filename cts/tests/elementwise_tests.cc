// SPDX-License-Identifier: Apache-2.0
//
// devrt.elementwise/0 against the scalar reference.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/objects.h"
#include "cts/tensors.h"

namespace devrt::cts {
namespace elementwise_tests {
namespace {

using Kernels = ElementwiseKernels;

// One call, and its expected result.
struct Job {
  uint32_t op = 0;
  View out;
  std::vector<View> inputs;
};

std::string Words(const Job& job) {
  std::string text = absl::StrCat(OpName(job.op), " to ", TextOf(job.out));
  for (const View& input : job.inputs) {
    absl::StrAppend(&text, ", from ", TextOf(input));
  }
  return text;
}

bool IsRounded(const Job& job) {
  return IsComplex(job.inputs[0].dtype) &&
         (job.op == DEVRT_OP_MUL || job.op == DEVRT_OP_DIV ||
          job.op == DEVRT_OP_ABS);
}

// The permitted difference between an element and the reference.
long double Tolerance(const Job& job, const uint8_t* want) {
  if (!IsRounded(job)) return 0;
  const Number n = Load(job.out.dtype, want);
  return 16 * EpsilonOf(job.inputs[0].dtype) * std::hypot(n.re, n.im);
}

// Writes the expected element at `index`.
void Expected(Arena& arena, const Job& job, const Shape& index, uint8_t* want) {
  const uint8_t* in[3] = {};
  for (size_t i = 0; i < job.inputs.size(); ++i) {
    in[i] = arena.At(job.inputs[i], index);
  }
  const uint32_t dtype = job.inputs[0].dtype;
  if (job.op == DEVRT_OP_WHERE) {
    const uint8_t* const chosen = in[0][0] != 0 ? in[1] : in[2];
    std::memcpy(want, chosen, SizeOf(job.out.dtype));
  } else if (job.op == DEVRT_OP_COPY && dtype == job.out.dtype &&
             dtype != DEVRT_BOOL) {
    std::memcpy(want, in[0], SizeOf(dtype));
  } else if (job.op == DEVRT_OP_COPY) {
    Store(job.out.dtype, Load(dtype, in[0]), want);
  } else {
    const Number a = Load(dtype, in[0]);
    const Number b = in[1] == nullptr ? a : Load(dtype, in[1]);
    Store(job.out.dtype, Compute(job.op, dtype, a, b), want);
  }
}

// If an operation keeps a bool as it is, any nonzero byte is true.
bool IsRight(const Job& job, const uint8_t* got, const uint8_t* want) {
  const bool keeps =
      job.op == DEVRT_OP_WHERE ||
      (job.op == DEVRT_OP_COPY && job.inputs[0].dtype == job.out.dtype);
  if (keeps && job.out.dtype == DEVRT_BOOL) {
    return (got[0] != 0) == (want[0] != 0);
  }
  if (keeps) return std::memcmp(got, want, SizeOf(job.out.dtype)) == 0;
  const bool zeros = job.op == DEVRT_OP_MAXIMUM || job.op == DEVRT_OP_MINIMUM;
  return Matches(job.out.dtype, got, want, zeros, Tolerance(job, want));
}

// Runs the job and checks every byte of the arena.  If it returns false, the
// test stops.
bool Check(Test& t, const Kernels& kernels, const RawStream& s, Arena& arena,
           const Job& job) {
  const size_t item = SizeOf(job.out.dtype);
  std::vector<std::pair<int64_t, std::vector<uint8_t>>> elements;
  ForEach(job.out.shape, [&](const Shape& index) {
    std::vector<uint8_t> want(item);
    Expected(arena, job, index, want.data());
    elements.emplace_back(OffsetOf(job.out, index), std::move(want));
  });
  std::vector<uint8_t> all(arena.begin(), arena.begin() + arena.used());
  arena.Upload(s);
  std::vector<devrt_tensor_v0> inputs;
  for (const View& input : job.inputs) inputs.push_back(arena.Describe(input));
  if (!t.Ok(kernels.Apply(s, job.op, arena.Describe(job.out), inputs),
            Words(job))) {
    return false;
  }
  arena.Download(s);
  for (const auto& [offset, want] : elements) {
    const uint8_t* const got = arena.At(job.out, offset);
    if (!IsRight(job, got, want.data())) {
      t.Fail(absl::StrCat(Words(job), ": the element at byte ", offset, " is ",
                          TextOf(job.out.dtype, got), ", not ",
                          TextOf(job.out.dtype, want.data())));
      return false;
    }
    std::memcpy(all.data() + job.out.offset + offset, got, item);
  }
  return t.Expect(std::equal(all.begin(), all.end(), arena.begin()),
                  Words(job) + ": no byte but the output's elements changes");
}

// Writes random elements to `view`: small ones if results are rounded.
void FillIn(Test& t, Arena& arena, const View& view, bool small) {
  ForEach(view.shape, [&](const Shape& index) {
    uint8_t* const element = arena.At(view, index);
    small ? RandomSmall(t.random(), view.dtype, element)
          : RandomElement(t.random(), view.dtype, element);
  });
}

Layout RandomLayout(Test& t) {
  return static_cast<Layout>(Uniform(t.random(), 0, kInputLayouts - 1));
}

Job RandomJob(Test& t, Arena& arena, uint32_t op, uint32_t dtype,
              Layout out_layout) {
  arena.Clear();
  const Shape shape = RandomShape(t.random());
  Job job;
  job.op = op;
  job.out = arena.Place(OutputOf(op, dtype), shape, out_layout);
  for (uint32_t i = 0; i < InputsOf(op); ++i) {
    const bool condition = op == DEVRT_OP_WHERE && i == 0;
    job.inputs.push_back(
        arena.Place(condition ? DEVRT_BOOL : dtype, shape, RandomLayout(t)));
  }
  for (const View& input : job.inputs) {
    FillIn(t, arena, input, IsRounded(job));
  }
  // Makes some elements equal.
  if (op != DEVRT_OP_WHERE && job.inputs.size() == 2) {
    ForEach(shape, [&](const Shape& index) {
      if (Uniform(t.random(), 0, 2) != 0) return;
      std::memcpy(arena.At(job.inputs[1], index),
                  arena.At(job.inputs[0], index), SizeOf(dtype));
    });
  }
  return job;
}

void EveryOp(Test& t) {
  const Kernels kernels(t);
  Arena arena(t, t.device());
  const RawStream s(t, t.device());
  for (const uint32_t op : Ops()) {
    for (const uint32_t dtype : Dtypes()) {
      if (op == DEVRT_OP_COPY || !HasOp(op, dtype)) continue;
      for (int layout = 0; layout < kOutputLayouts; ++layout) {
        const Job job =
            RandomJob(t, arena, op, dtype, static_cast<Layout>(layout));
        if (!Check(t, kernels, s, arena, job)) return;
      }
    }
  }
}

// Every layout of the output with every layout of one input.
void EveryLayout(Test& t) {
  const Kernels kernels(t);
  Arena arena(t, t.device());
  const RawStream s(t, t.device());
  for (const uint32_t dtype : {DEVRT_INT8, DEVRT_BFLOAT16, DEVRT_INT32,
                               DEVRT_FLOAT64, DEVRT_COMPLEX128}) {
    for (int to = 0; to < kOutputLayouts; ++to) {
      for (int from = 0; from < kInputLayouts; ++from) {
        arena.Clear();
        const Shape shape = {3, 4, 5};
        Job job;
        job.op = DEVRT_OP_ADD;
        job.out = arena.Place(dtype, shape, static_cast<Layout>(to));
        job.inputs = {arena.Place(dtype, shape, static_cast<Layout>(from)),
                      arena.Place(dtype, shape, Layout::kContiguous)};
        for (const View& in : job.inputs) FillIn(t, arena, in, true);
        if (!Check(t, kernels, s, arena, job)) return;
      }
    }
  }
}

void EveryConversion(Test& t) {
  const Kernels kernels(t);
  Arena arena(t, t.device());
  const RawStream s(t, t.device());
  for (const uint32_t from : Dtypes()) {
    for (const uint32_t to : Dtypes()) {
      for (const Layout layout : {Layout::kContiguous, Layout::kUnaligned}) {
        arena.Clear();
        const Shape shape = {96};
        Job job;
        job.op = DEVRT_OP_COPY;
        job.out = arena.Place(to, shape, layout);
        job.inputs = {arena.Place(from, shape, RandomLayout(t))};
        FillIn(t, arena, job.inputs[0], false);
        if (!Check(t, kernels, s, arena, job)) return;
      }
    }
  }
}

// All values of 8 and 16 bits there are.
void EveryBitPattern(Test& t) {
  const Kernels kernels(t);
  Arena arena(t, t.device());
  const RawStream s(t, t.device());
  for (const uint32_t from : {DEVRT_FLOAT8_E4M3FN, DEVRT_FLOAT8_E5M2,
                              DEVRT_FLOAT16, DEVRT_BFLOAT16}) {
    const int64_t values = int64_t{1} << (8 * SizeOf(from));
    for (const uint32_t to :
         {DEVRT_FLOAT32, DEVRT_FLOAT8_E4M3FN, DEVRT_INT16}) {
      if (values > 256 && to == DEVRT_FLOAT32) continue;
      arena.Clear();
      const Shape shape = {std::min<int64_t>(values, 40'000)};
      Job job;
      job.op = DEVRT_OP_COPY;
      job.out = arena.Place(to, shape, Layout::kContiguous);
      job.inputs = {arena.Place(from, shape, Layout::kContiguous)};
      const int64_t skipped = values - shape[0];
      for (int64_t i = 0; i < shape[0]; ++i) {
        const auto bits = static_cast<uint32_t>(i + skipped);
        std::memcpy(
            arena.At(job.inputs[0], i * static_cast<int64_t>(SizeOf(from))),
            &bits, SizeOf(from));
      }
      if (!Check(t, kernels, s, arena, job)) return;
    }
  }
}

void OnEveryDevice(Test& t) {
  const Kernels kernels(t);
  for (const uint32_t device : t.devices()) {
    Arena arena(t, device);
    const RawStream s(t, device);
    for (const uint32_t dtype : Dtypes()) {
      if (!HasOp(DEVRT_OP_ADD, dtype)) continue;
      const Job job =
          RandomJob(t, arena, DEVRT_OP_ADD, dtype, Layout::kTransposed);
      if (!Check(t, kernels, s, arena, job)) return;
    }
  }
}

void LargeTensor(Test& t) {
  const Kernels kernels(t);
  Arena arena(t, t.device());
  const RawStream s(t, t.device());
  arena.Clear();
  const Shape shape = {100, 150};
  Job job;
  job.op = DEVRT_OP_MUL;
  job.out = arena.Place(DEVRT_INT32, shape, Layout::kTransposed);
  job.inputs = {arena.Place(DEVRT_INT32, shape, Layout::kContiguous),
                arena.Place(DEVRT_INT32, shape, Layout::kBroadcast)};
  for (const View& in : job.inputs) FillIn(t, arena, in, false);
  Check(t, kernels, s, arena, job);
}

void InPlace(Test& t) {
  const Kernels kernels(t);
  Arena arena(t, t.device());
  const RawStream s(t, t.device());
  for (const uint32_t dtype : Dtypes()) {
    if (!HasOp(DEVRT_OP_ADD, dtype)) continue;
    for (int layout = 0; layout < kOutputLayouts; ++layout) {
      for (const int which : {0, 1, 2}) {
        Job job = RandomJob(t, arena, DEVRT_OP_ADD, dtype,
                            static_cast<Layout>(layout));
        FillIn(t, arena, job.out, true);
        if (which != 1) job.inputs[0] = job.out;
        if (which != 0) job.inputs[1] = job.out;
        if (!Check(t, kernels, s, arena, job)) return;
      }
    }
  }
}

void Fills(Test& t) {
  const Kernels kernels(t);
  Arena arena(t, t.device());
  const RawStream s(t, t.device());
  for (const uint32_t dtype : Dtypes()) {
    for (int layout = 0; layout < kOutputLayouts; ++layout) {
      arena.Clear();
      const View out = arena.Place(dtype, RandomShape(t.random()),
                                   static_cast<Layout>(layout));
      uint8_t value[16] = {};
      RandomElement(t.random(), dtype, value);
      std::vector<uint8_t> all(arena.begin(), arena.begin() + arena.used());
      arena.Upload(s);
      if (!t.Ok(kernels.Fill(s, arena.Describe(out), value), "fill")) return;
      arena.Download(s);
      bool right = true;
      ForEach(out.shape, [&](const Shape& index) {
        uint8_t* const got = arena.At(out, index);
        right = right && (dtype == DEVRT_BOOL
                              ? (got[0] != 0) == (value[0] != 0)
                              : std::memcmp(got, value, SizeOf(dtype)) == 0);
        std::memcpy(all.data() + out.offset + OffsetOf(out, index), got,
                    SizeOf(dtype));
      });
      right = right && std::equal(all.begin(), all.end(), arena.begin());
      if (!t.Expect(right, absl::StrCat("a fill of ", TextOf(out),
                                        " sets its elements and no other "
                                        "byte"))) {
        return;
      }
    }
  }
}

constexpr TestCase kTests[] = {
    {"extension.elementwise_operations", "",
     "Every operation on every dtype has the results of the scalar reference, "
     "in every layout of the output.",
     &EveryOp},
    {"extension.elementwise_layouts", "",
     "Inputs and outputs may have any strides, 0 for inputs, and no alignment.",
     &EveryLayout},
    {"extension.elementwise_conversions", "",
     "COPY converts between every two dtypes by the rules.", &EveryConversion},
    {"extension.elementwise_bit_patterns", "",
     "COPY converts every value of the small floats by the rules.",
     &EveryBitPattern},
    {"extension.elementwise_on_every_device", "", "Kernels run on each device.",
     &OnEveryDevice},
    {"extension.elementwise_large", "",
     "Kernels work on thousands of elements.", &LargeTensor},
    {"extension.elementwise_in_place", "",
     "The output may be one of the input views.", &InPlace},
    {"extension.elementwise_fill", "",
     "A fill sets every element of its output to the value.", &Fills},
};

}  // namespace
}  // namespace elementwise_tests

absl::Span<const TestCase> ElementwiseTests() {
  return elementwise_tests::kTests;
}

}  // namespace devrt::cts
