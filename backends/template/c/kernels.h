/* SPDX-License-Identifier: Apache-2.0
 *
 * What the device executes.  These run on the host and stand for kernels, or
 * for calls of a driver.
 */
#ifndef MYBACKEND_KERNELS_H_
#define MYBACKEND_KERNELS_H_

#include <stdint.h>

void mybackend_copy_bytes(void* dst, const void* src, uint64_t size);
void mybackend_fill_bytes(void* dst, uint8_t value, uint64_t size);

#endif /* MYBACKEND_KERNELS_H_ */
