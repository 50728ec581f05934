// The memory of the device: a range of addresses that the host cannot touch except by the device's
// own copies. What is allocated holds nan until it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cuda_on_host {

// nullptr if the device has no more. CUDA_ON_HOST_MEMORY gives its size in MB (4096).
void* allocate_on_device(size_t bytes);
// False if there is no such allocation.
bool free_on_device(void* data);
size_t free_device_bytes();
size_t all_device_bytes();

bool is_on_device(const void* address);

// The device, or a copy by it, is about to touch these bytes: the first of them that must not be
// touched is what the text complains of; empty if all may be. Opens them to this process.
std::string open_on_device(const void* address, size_t bytes);
// The device is done for now: the host cannot touch its memory any more.
void close_device();

// Where an address of the device lies in its memory, and how much there can be.
size_t offset_on_device(const void* address);
inline constexpr size_t address_space = size_t{16} << 30;

}  // namespace cuda_on_host
