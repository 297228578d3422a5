// SPDX-License-Identifier: Apache-2.0
//
// devrt.reduce/0 against the scalar reference.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/objects.h"
#include "cts/tensors.h"

namespace devrt::cts {
namespace reduce_tests {
namespace {

using Table = devrt_reduce_v0;

constexpr const char* kNames[] = {"SUM", "PROD", "MIN", "MAX", "ANY", "ALL"};
constexpr uint32_t kOps = 6;

bool IsOrder(uint32_t op) {
  return op == DEVRT_REDUCE_MIN || op == DEVRT_REDUCE_MAX;
}
bool IsSum(uint32_t op) {
  return op == DEVRT_REDUCE_SUM || op == DEVRT_REDUCE_PROD;
}

class Kernels {
 public:
  explicit Kernels(Test& t) : t_(t) {
    const Extension found =
        t.NeedExtension(DEVRT_REDUCE_EXTENSION, sizeof(Table));
    table_ = static_cast<const Table*>(found.table);
    self_ = found.self;
  }

  bool Supports(uint32_t op, uint32_t in, uint32_t out) const {
    uint32_t yes = 2;
    t_.Require(t_.machine().CallExtension(&Table::supports, table_, self_, op,
                                          in, out, &yes),
               "supports");
    t_.Expect(yes < 2, "supports answers 0 or 1");
    return yes != 0;
  }
  Result Reduce(const RawStream& s, uint32_t op, const devrt_tensor_v0& out,
                const devrt_tensor_v0& in, uint32_t axes) const {
    return t_.machine().CallExtension(&Table::reduce, table_, self_, s.handle(),
                                      op, &out, &in, axes);
  }

 private:
  Test& t_;
  const Table* table_ = nullptr;
  void* self_ = nullptr;
};

// As devrt_tensor.h says.
bool Exists(uint32_t op, uint32_t in, uint32_t out) {
  if (IsFloat8(in) || IsFloat8(out)) return false;
  if (IsOrder(op)) return in == out && !IsComplex(in);
  if (!IsSum(op)) return out == DEVRT_BOOL;
  if (in == out) return in != DEVRT_BOOL;
  const bool is_unsigned = in >> 8 == 1;
  if (in == DEVRT_BOOL || (IsInteger(in) && !is_unsigned)) {
    return out == DEVRT_INT64;
  }
  return is_unsigned && out == DEVRT_UINT64;
}

// The expected result of a group of elements.
class Total {
 public:
  Total(uint32_t op, uint32_t in, uint32_t out) : op_(op), in_(in), out_(out) {
    re_ = whole_ = op == DEVRT_REDUCE_PROD ? 1 : 0;
  }

  void Add(const uint8_t* element) {
    const Number n = Load(in_, element);
    const bool is_true = n.integer != 0 || n.re != 0 || n.im != 0;
    any_ = any_ || is_true;
    all_ = all_ && is_true;
    if (IsOrder(op_)) AddOrder(n);
    if (IsSum(op_)) AddSum(n);
    ++count_;
  }

  void Store(uint8_t* want) const { cts::Store(out_, Result(), want); }

  // The permitted error of a rounded result.
  long double Tolerance() const {
    if (!IsSum(op_) || IsInteger(out_)) return 0;
    const bool wide = out_ == DEVRT_FLOAT64 || out_ == DEVRT_COMPLEX128;
    const long double step = EpsilonOf(wide ? DEVRT_FLOAT64 : DEVRT_FLOAT32);
    const long double rounds =
        op_ == DEVRT_REDUCE_SUM
            ? 4 * (std::log2(static_cast<long double>(count_ + 1)) + 2)
            : 4 * static_cast<long double>(count_ + 1);
    return EpsilonOf(out_) * std::hypot(re_, im_) + rounds * step * magnitude_;
  }

 private:
  Number Result() const {
    if (op_ == DEVRT_REDUCE_ANY) return Number::Integer(any_ ? 1 : 0);
    if (op_ == DEVRT_REDUCE_ALL) return Number::Integer(all_ ? 1 : 0);
    if (IsOrder(op_)) return best_;
    if (IsInteger(out_)) return Number::Integer(static_cast<Wide>(whole_));
    if (IsComplex(out_)) return Number::Complex(re_, im_);
    return Number::Real(re_);
  }
  void AddOrder(const Number& n) {
    if (count_ == 0) best_ = n;
    if (std::isnan(best_.re)) return;
    const bool less = n.kind == Number::Kind::kInteger
                          ? n.integer < best_.integer
                          : n.re < best_.re;
    const bool more = n.kind == Number::Kind::kInteger
                          ? n.integer > best_.integer
                          : n.re > best_.re;
    if (std::isnan(n.re) || (op_ == DEVRT_REDUCE_MIN ? less : more)) best_ = n;
  }
  void AddSum(const Number& n) {
    const bool product = op_ == DEVRT_REDUCE_PROD;
    const auto low = static_cast<uint64_t>(n.integer);
    whole_ = product ? whole_ * low : whole_ + low;  // wraps
    if (product) {
      const long double re = re_ * n.re - im_ * n.im;
      im_ = re_ * n.im + im_ * n.re;
      re_ = re;
      magnitude_ = std::hypot(re_, im_);
    } else {
      re_ += n.re;
      im_ += n.im;
      magnitude_ += std::hypot(n.re, n.im);
    }
  }

  const uint32_t op_, in_, out_;
  int64_t count_ = 0;
  bool any_ = false, all_ = true;
  Number best_;
  uint64_t whole_ = 0;
  long double re_ = 0, im_ = 0, magnitude_ = 0;
};

struct Job {
  uint32_t op = 0, axes = 0;
  View out, in;
};

std::string Words(const Job& job) {
  return absl::StrCat(kNames[job.op], " over axes 0x", absl::Hex(job.axes),
                      " of ", TextOf(job.in), " to ", TextOf(job.out));
}

Shape Reduced(const Shape& shape, uint32_t axes) {
  Shape result = shape;
  for (size_t k = 0; k < shape.size(); ++k) {
    if ((axes >> k & 1) != 0) result[k] = 1;
  }
  return result;
}

// The elements of the result at `index`.
Total TotalOf(Arena& arena, const Job& job, const Shape& index) {
  Total total(job.op, job.in.dtype, job.out.dtype);
  Shape part = job.in.shape;
  for (size_t k = 0; k < part.size(); ++k) {
    if ((job.axes >> k & 1) == 0) part[k] = 1;
  }
  ForEach(part, [&](const Shape& inner) {
    Shape at = index;
    for (size_t k = 0; k < at.size(); ++k) at[k] += inner[k];
    total.Add(arena.At(job.in, at));
  });
  return total;
}

bool Check(Test& t, const Kernels& kernels, const RawStream& s, Arena& arena,
           const Job& job) {
  const size_t item = SizeOf(job.out.dtype);
  struct Want {
    int64_t offset;
    uint8_t bytes[16];
    long double tolerance;
  };
  std::vector<Want> wanted;
  ForEach(job.out.shape, [&](const Shape& index) {
    Want want = {OffsetOf(job.out, index), {}, 0};
    const Total total = TotalOf(arena, job, index);
    total.Store(want.bytes);
    want.tolerance = total.Tolerance();
    wanted.push_back(want);
  });
  std::vector<uint8_t> all(arena.begin(), arena.begin() + arena.used());
  arena.Upload(s);
  if (!t.Ok(kernels.Reduce(s, job.op, arena.Describe(job.out),
                           arena.Describe(job.in), job.axes),
            Words(job))) {
    return false;
  }
  arena.Download(s);
  for (const Want& want : wanted) {
    const uint8_t* const got = arena.At(job.out, want.offset);
    if (!Matches(job.out.dtype, got, want.bytes, true, want.tolerance)) {
      t.Fail(absl::StrCat(Words(job), ": the element at byte ", want.offset,
                          " is ", TextOf(job.out.dtype, got), ", not ",
                          TextOf(job.out.dtype, want.bytes)));
      return false;
    }
    std::memcpy(all.data() + job.out.offset + want.offset, got, item);
  }
  return t.Expect(std::equal(all.begin(), all.end(), arena.begin()),
                  Words(job) + ": no byte but the output's elements changes");
}

// Elements with sums and products in range, and with both values of ANY and
// ALL.
void FillIn(Test& t, Arena& arena, const Job& job) {
  const uint32_t dtype = job.in.dtype;
  const auto near = [&](double middle) {
    return std::uniform_real_distribution<double>(middle - 0.1,
                                                  middle + 0.1)(t.random());
  };
  ForEach(job.in.shape, [&](const Shape& index) {
    uint8_t* const element = arena.At(job.in, index);
    if (IsOrder(job.op)) {
      RandomElement(t.random(), dtype, element);
      // A NaN decides the result, so NaNs must be rare.
      if (std::isnan(Load(dtype, element).re) &&
          Uniform(t.random(), 0, 19) != 0) {
        RandomSmall(t.random(), dtype, element);
      }
    } else if (!IsSum(job.op)) {
      const bool rare = Uniform(t.random(), 0, 7) == 0;
      std::fill_n(element, SizeOf(dtype), uint8_t{0});
      if (rare == (job.op == DEVRT_REDUCE_ANY)) {
        RandomElement(t.random(), dtype, element);
      }
    } else if (job.op == DEVRT_REDUCE_PROD && IsComplex(dtype)) {
      Store(dtype, Number::Complex(near(1), near(0)), element);
    } else if (job.op == DEVRT_REDUCE_PROD && IsReal(dtype)) {
      Store(dtype, Number::Real(near(1)), element);
    } else if (IsInteger(dtype)) {
      RandomElement(t.random(), dtype, element);
    } else {
      RandomSmall(t.random(), dtype, element);
    }
  });
}

Layout RandomLayout(Test& t, int count) {
  return static_cast<Layout>(Uniform(t.random(), 0, count - 1));
}

Job RandomJob(Test& t, Arena& arena, uint32_t op, uint32_t in, uint32_t out,
              const Shape& shape, uint32_t axes) {
  arena.Clear();
  Job job;
  job.op = op;
  job.axes = axes;
  job.in = arena.Place(in, shape, RandomLayout(t, kInputLayouts));
  job.out =
      arena.Place(out, Reduced(shape, axes), RandomLayout(t, kOutputLayouts));
  FillIn(t, arena, job);
  return job;
}

template <typename Visit>
void ForEachPair(Visit visit) {
  for (uint32_t op = 0; op < kOps; ++op) {
    for (const uint32_t in : Dtypes()) {
      for (const uint32_t out : Dtypes()) {
        if (Exists(op, in, out) && !visit(op, in, out)) return;
      }
    }
  }
}

void EveryOp(Test& t) {
  const Kernels kernels(t);
  Arena arena(t, t.device());
  const RawStream s(t, t.device());
  ForEachPair([&](uint32_t op, uint32_t in, uint32_t out) {
    for (uint32_t axes = 0; axes < 8; ++axes) {
      const Job job = RandomJob(t, arena, op, in, out, {3, 4, 5}, axes);
      if (!Check(t, kernels, s, arena, job)) return false;
    }
    return true;
  });
}

void EveryLayout(Test& t) {
  const Kernels kernels(t);
  Arena arena(t, t.device());
  const RawStream s(t, t.device());
  for (const uint32_t dtype : {DEVRT_INT16, DEVRT_FLOAT32, DEVRT_COMPLEX128}) {
    for (int from = 0; from < kInputLayouts; ++from) {
      for (int to = 0; to < kOutputLayouts; ++to) {
        for (const uint32_t axes : {1u, 2u, 4u, 6u}) {
          arena.Clear();
          Job job;
          job.op = DEVRT_REDUCE_SUM;
          job.axes = axes;
          const Shape shape = {2, 7, 40};
          job.in = arena.Place(dtype, shape, static_cast<Layout>(from));
          job.out =
              arena.Place(dtype, Reduced(shape, axes), static_cast<Layout>(to));
          FillIn(t, arena, job);
          if (!Check(t, kernels, s, arena, job)) return;
        }
      }
    }
  }
}

void EveryShape(Test& t) {
  const Kernels kernels(t);
  for (const uint32_t device : t.devices()) {
    Arena arena(t, device);
    const RawStream s(t, device);
    for (int i = 0; i < 60; ++i) {
      const Shape shape = RandomShape(t.random());
      auto axes = static_cast<uint32_t>(t.random()());
      if (shape.size() < 32) axes &= (1u << shape.size()) - 1;
      const uint32_t op = static_cast<uint32_t>(i) % kOps;
      const uint32_t out = op < DEVRT_REDUCE_ANY ? DEVRT_FLOAT32 : DEVRT_BOOL;
      const Job job = RandomJob(t, arena, op, DEVRT_FLOAT32, out, shape, axes);
      if (!Check(t, kernels, s, arena, job)) return;
    }
  }
}

// A sum in the order of the elements would have a much larger error.
void SumsAreAccurate(Test& t) {
  const Kernels kernels(t);
  const RawStream s(t, t.device());
  const uint64_t count = 1 << 18;
  const DeviceBlock in(t, t.device(), count * 4), out(t, t.device(), 4);
  const std::vector<float> values(count, 0.1f);
  std::vector<uint8_t> bytes(count * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  in.Write(bytes);
  const int64_t one[] = {1}, all[] = {static_cast<int64_t>(count)};
  t.Require(kernels.Reduce(s, DEVRT_REDUCE_SUM,
                           {out.ptr(), one, nullptr, 1, DEVRT_FLOAT32},
                           {in.ptr(), all, nullptr, 1, DEVRT_FLOAT32}, 1),
            "sum");
  s.Sync();
  float sum = 0;
  const std::vector<uint8_t> got = out.Read();
  std::memcpy(&sum, got.data(), 4);
  const double exact = static_cast<double>(count) * static_cast<double>(0.1f);
  t.Expect(std::fabs(sum - exact) <= 1e-5 * exact,
           absl::StrCat("the error of a sum grows with the logarithm of the "
                        "number of elements: ",
                        sum, " instead of ", exact));
}

void NoElements(Test& t) {
  const Kernels kernels(t);
  const RawStream s(t, t.device());
  const DeviceBlock out(t, t.device(), 3 * 8);
  const int64_t shape[] = {3, 0}, reduced[] = {3, 1}, none[] = {0, 1};
  const devrt_tensor_v0 in = {nullptr, shape, nullptr, 2, DEVRT_INT64};
  for (uint32_t op = 0; op < kOps; ++op) {
    const bool is_bool = op >= DEVRT_REDUCE_ANY;
    const Result result = kernels.Reduce(
        s, op,
        {out.ptr(), reduced, nullptr, 2, is_bool ? DEVRT_BOOL : DEVRT_INT64},
        in, 2);
    if (IsOrder(op)) {
      t.Code(result, DEVRT_INVALID_ARGUMENT, "an extreme of no elements");
      continue;
    }
    t.Require(result, "a reduction of no elements");
    s.Sync();
    const std::vector<uint8_t> bytes = out.Read();
    const int64_t want = op == DEVRT_REDUCE_PROD || op == DEVRT_REDUCE_ALL;
    for (size_t i = 0; i < 3; ++i) {
      const Number got = Load(is_bool ? DEVRT_BOOL : DEVRT_INT64,
                              bytes.data() + i * (is_bool ? 1 : 8));
      t.Expect(got.integer == want,
               absl::StrCat(kNames[op], " of no elements is ", want));
    }
  }
  const int64_t rows[] = {0, 4};
  t.Ok(kernels.Reduce(s, DEVRT_REDUCE_MIN,
                      {nullptr, none, nullptr, 2, DEVRT_INT64},
                      {nullptr, rows, nullptr, 2, DEVRT_INT64}, 2),
       "no results at all");
  s.Sync();
}

void Supported(Test& t) {
  const Kernels kernels(t);
  for (uint32_t op = 0; op < kOps; ++op) {
    for (const uint32_t in : Dtypes()) {
      for (const uint32_t out : Dtypes()) {
        const bool known = kernels.Supports(op, in, out);
        t.Expect(known == Exists(op, in, out),
                 absl::StrCat(kNames[op], " from ", DtypeName(in), " to ",
                              DtypeName(out),
                              known ? " does not exist" : " exists"));
      }
    }
  }
  t.Expect(!kernels.Supports(99, DEVRT_INT64, DEVRT_INT64),
           "reduction 99 does not exist");
}

void Refused(Test& t) {
  const Kernels kernels(t);
  Arena arena(t, t.device());
  const RawStream s(t, t.device());
  const View in = arena.Place(DEVRT_INT64, {3, 4}, Layout::kContiguous);
  const View rows = arena.Place(DEVRT_INT64, {3, 1}, Layout::kContiguous);
  const View flat = arena.Place(DEVRT_INT64, {3}, Layout::kContiguous);
  const View real = arena.Place(DEVRT_FLOAT32, {3, 1}, Layout::kContiguous);
  arena.Upload(s);
  const auto refused = [&](uint32_t op, const View& out, uint32_t axes,
                           const char* what) {
    t.Code(kernels.Reduce(s, op, arena.Describe(out), arena.Describe(in), axes),
           DEVRT_INVALID_ARGUMENT, what);
  };
  refused(DEVRT_REDUCE_SUM, rows, 1, "an output of another shape");
  refused(DEVRT_REDUCE_SUM, flat, 2, "an output of fewer dimensions");
  refused(DEVRT_REDUCE_SUM, real, 2, "a pair of dtypes that does not exist");
  refused(DEVRT_REDUCE_SUM, rows, 4 | 2, "an axis that does not exist");
  refused(99, rows, 2, "an unknown reduction");
  const std::vector<uint8_t> before(arena.begin(),
                                    arena.begin() + arena.used());
  arena.Download(s);
  t.Expect(std::equal(before.begin(), before.end(), arena.begin()),
           "calls that are refused change nothing");
}

constexpr TestCase kTests[] = {
    {"extension.reduce_operations", "",
     "Every reduction of every pair of dtypes has the results of the scalar "
     "reference, over any set of axes.",
     &EveryOp},
    {"extension.reduce_layouts", "", "Reductions take any strides.",
     &EveryLayout},
    {"extension.reduce_shapes", "",
     "Reductions take up to 32 dimensions, on each device.", &EveryShape},
    {"extension.reduce_is_accurate", "",
     "The error of a sum grows with the logarithm of the number of elements.",
     &SumsAreAccurate},
    {"extension.reduce_no_elements", "",
     "Reductions of no elements have their neutral value, extremes none.",
     &NoElements},
    {"extension.reduce_supports", "",
     "The reductions exist for the pairs of dtypes that the header says.",
     &Supported},
    {"extension.reduce_refusals", "",
     "A call with arguments that do not fit is INVALID_ARGUMENT and changes "
     "nothing.",
     &Refused},
};

}  // namespace
}  // namespace reduce_tests

absl::Span<const TestCase> ReduceTests() { return reduce_tests::kTests; }

}  // namespace devrt::cts
