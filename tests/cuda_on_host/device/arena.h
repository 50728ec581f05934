// The memory of the emulated device: a range of addresses that the host cannot access except
// through the device's own copies. Allocated memory holds nan until it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cuda_on_host {

// Returns nullptr if the device has no more memory. CUDA_ON_HOST_MEMORY gives its size in MB
// (4096).
void* allocate_on_device(size_t bytes);
// Returns false if there is no such allocation.
bool free_on_device(void* data);
size_t free_device_bytes();
size_t all_device_bytes();

bool is_on_device(const void* address);

// Opens these bytes to this process for an access by the device or one of its copies. Returns "",
// or a text about the first byte that must not be accessed.
std::string open_on_device(const void* address, size_t bytes);
// Closes the device's memory to the host after an access.
void close_device();

// Returns the offset of a device address in its memory, and the size of the address range.
size_t offset_on_device(const void* address);
inline constexpr size_t address_space = size_t{16} << 30;

}  // namespace cuda_on_host
