/* SPDX-License-Identifier: Apache-2.0
 *
 * Extensions "devrt.elementwise/0" and "devrt.reduce/0": the kernels of array
 * libraries, on strided tensors of any dtype with up to 32 dimensions.
 *
 * Rules for both
 *   - Stream-ordered and asynchronous; the descriptors are copied.
 *   - Element i of a tensor is at data + sum(index[k] * strides[k]); strides
 *     are in BYTES, may be zero (broadcast inputs) or negative, and need not
 *     be multiples of the element's size: no alignment is assumed.
 *   - All memory belongs to the stream's device, to a peer that it may access
 *     or to pinned host memory; otherwise the kernel faults (C78).
 *   - The inputs of an elementwise operation have the output's shape (stride 0
 *     broadcasts); any other shape is INVALID_ARGUMENT.  So is a tensor with
 *     elements and a NULL `data`, or with bytes outside the address space.
 *   - If the output has no elements, the call succeeds and does nothing.
 *   - The output may be the same view as an input (in place).  The caller must
 *     avoid every other overlap of output and input, and an output that
 *     overlaps itself.
 *
 * Arithmetic
 *   - Integers wrap.  16-bit floats are computed in float32 and rounded once
 *     per operation, to nearest, ties to even.  Conversions to a float round
 *     in this way too.  The bits of a NaN are unspecified, and so is the sign
 *     of the larger or smaller of two zeros.
 *   - Bools have ADD (or), MUL (and), ABS, the comparisons, MAXIMUM (or),
 *     MINIMUM (and) and the LOGICAL_ operations, as in NumPy; NEG, SUB and DIV
 *     do not exist for them.
 *   - The float8 dtypes have fill and COPY only.
 *
 * Conversions (COPY between different dtypes)
 *   - Float to integer truncates; a value out of range saturates, and NaN
 *     becomes 0.  (C and therefore NumPy leave both undefined.)
 *   - Integer to integer keeps the low bits.  Complex to real drops the
 *     imaginary part.  To bool is != 0, NaN is true; bool to number is 0 or 1.
 *   - A value too large for a float becomes infinity.  float8_e4m3fn has no
 *     infinity: infinities, and values that round beyond its largest value 448
 *     (that is, beyond 464), become NaN.
 *   - A copy between equal dtypes keeps all bits, also those of a NaN, except
 *     that a bool becomes 0 or 1.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_TENSOR_H_
#define DEVRT_BACKENDS_ABI_DEVRT_TENSOR_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The names for get_extension. */
#define DEVRT_ELEMENTWISE_EXTENSION "devrt.elementwise/0"
#define DEVRT_REDUCE_EXTENSION "devrt.reduce/0"

/* The most axes of a tensor. */
#define DEVRT_MAX_DIMS 32u

/* A dtype is DLPack's (code, bits): code << 8 | bits. */
#define DEVRT_DTYPE(code, bits) (((uint32_t)(code) << 8) | (uint32_t)(bits))
#define DEVRT_INT8 DEVRT_DTYPE(0, 8)
#define DEVRT_INT16 DEVRT_DTYPE(0, 16)
#define DEVRT_INT32 DEVRT_DTYPE(0, 32)
#define DEVRT_INT64 DEVRT_DTYPE(0, 64)
#define DEVRT_UINT8 DEVRT_DTYPE(1, 8)
#define DEVRT_UINT16 DEVRT_DTYPE(1, 16)
#define DEVRT_UINT32 DEVRT_DTYPE(1, 32)
#define DEVRT_UINT64 DEVRT_DTYPE(1, 64)
#define DEVRT_FLOAT16 DEVRT_DTYPE(2, 16)
#define DEVRT_FLOAT32 DEVRT_DTYPE(2, 32)
#define DEVRT_FLOAT64 DEVRT_DTYPE(2, 64)
#define DEVRT_BFLOAT16 DEVRT_DTYPE(4, 16)
#define DEVRT_COMPLEX64 DEVRT_DTYPE(5, 64)
#define DEVRT_COMPLEX128 DEVRT_DTYPE(5, 128)
#define DEVRT_BOOL DEVRT_DTYPE(6, 8) /* a byte, 0 or 1; nonzero is true */
#define DEVRT_FLOAT8_E4M3FN DEVRT_DTYPE(10, 8) /* only fill and COPY */
#define DEVRT_FLOAT8_E5M2 DEVRT_DTYPE(12, 8)   /* only fill and COPY */

/* A strided tensor.  Has no struct_size and never grows, so that arrays of it
 * are possible. */
typedef struct devrt_tensor_v0 {
  void* data;             /* the element whose indices are 0 */
  const int64_t* shape;   /* ndim extents; NULL allowed when ndim is 0 */
  const int64_t* strides; /* ndim strides in bytes; NULL: C-contiguous */
  uint32_t ndim;          /* 0 to DEVRT_MAX_DIMS */
  uint32_t dtype;         /* DEVRT_DTYPE */
} devrt_tensor_v0;

/* Unary: one input. */
#define DEVRT_OP_COPY 0u /* converts if input and output dtype differ */
#define DEVRT_OP_NEG 1u
#define DEVRT_OP_ABS 2u         /* complex input: real output of half width */
#define DEVRT_OP_LOGICAL_NOT 3u /* any input, output bool: x == 0 */
/* Binary: two inputs of one dtype; the output has that dtype, or bool for
 * comparisons. */
#define DEVRT_OP_ADD 16u
#define DEVRT_OP_SUB 17u
#define DEVRT_OP_MUL 18u
#define DEVRT_OP_DIV 19u /* integers: toward zero; division by zero gives 0 */
#define DEVRT_OP_EQ 20u
#define DEVRT_OP_NE 21u
#define DEVRT_OP_LT 22u /* LT, LE, GT, GE: INVALID_ARGUMENT for complex */
#define DEVRT_OP_LE 23u
#define DEVRT_OP_GT 24u
#define DEVRT_OP_GE 25u
#define DEVRT_OP_LOGICAL_AND 26u /* bool inputs, output bool */
#define DEVRT_OP_LOGICAL_OR 27u
#define DEVRT_OP_MAXIMUM 28u /* NaN wins; INVALID_ARGUMENT for complex */
#define DEVRT_OP_MINIMUM 29u
/* Ternary: inputs (bool condition, a, b).  The output has the dtype of a and b
 * and keeps their bits. */
#define DEVRT_OP_WHERE 32u

/* The functions of devrt.elementwise/0. */
typedef struct devrt_elementwise_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any, callback] 1 if `op` exists for inputs of `dtype`; for WHERE, `dtype`
   * is that of a and b. */
  devrt_status (*supports)(void* self, uint32_t op, uint32_t dtype,
                           uint32_t* yes);
  /* [any] Sets every element of `out` to the element at `value`, in host memory
   * and in out's dtype (at most 16 bytes, copied). */
  devrt_status (*fill)(void* self, devrt_stream stream,
                       const devrt_tensor_v0* out, const void* value);
  /* [any] out := op(inputs...), by the rules of arithmetic and conversion at
   * the top. */
  devrt_status (*apply)(void* self, devrt_stream stream, uint32_t op,
                        const devrt_tensor_v0* out,
                        const devrt_tensor_v0* inputs, uint32_t input_count);
} devrt_elementwise_v0;

/* The supported pairs of dtypes, input to output; float8 has none:
 *   SUM, PROD   T to T for all but bool; bool and signed integers to int64,
 *               unsigned integers to uint64 (NumPy's defaults)
 *   MIN, MAX    T to T for all but complex
 *   ANY, ALL    T to bool for all; an element counts as true if != 0, NaN too
 */
#define DEVRT_REDUCE_SUM 0u  /* empty: 0; integers wrap to the output's size */
#define DEVRT_REDUCE_PROD 1u /* empty: 1 */
#define DEVRT_REDUCE_MIN 2u  /* NaN wins; empty: INVALID_ARGUMENT */
#define DEVRT_REDUCE_MAX 3u
#define DEVRT_REDUCE_ANY 4u /* empty: false */
#define DEVRT_REDUCE_ALL 5u /* empty: true */

/* The functions of devrt.reduce/0. */
typedef struct devrt_reduce_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] 1 if `op` reduces `in_dtype` to `out_dtype`. */
  devrt_status (*supports)(void* self, uint32_t op, uint32_t in_dtype,
                           uint32_t out_dtype, uint32_t* yes);
  /* [any] Reduces `in` over the axes whose bit is set in `axes`.  `out` has
   * in's ndim, with extent 1 on reduced axes and in's extent on the others.
   * `axes` may be 0; a bit beyond ndim is INVALID_ARGUMENT.  Sums and products
   * of 16-bit floats accumulate in float32 and are rounded once; those of other
   * floats accumulate in their own dtype.  The order of operations is
   * unspecified, but sums of floats are blocked or pairwise, so the error grows
   * with the logarithm of the number of elements. */
  devrt_status (*reduce)(void* self, devrt_stream stream, uint32_t op,
                         const devrt_tensor_v0* out, const devrt_tensor_v0* in,
                         uint32_t axes);
} devrt_reduce_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_TENSOR_H_ */
