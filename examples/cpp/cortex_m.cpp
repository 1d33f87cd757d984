// Startup code for a Cortex-M with an FPU, without a vendor's library. It runs `replay.cpp` in an emulator:
//
//     flags="-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -std=c++17 -O2 -ffp-contract=off"
//     flags="$flags -fno-exceptions -fno-rtti -DPOLICY=panda_satesac -include ../../policy/panda_satesac.hpp"
//     cd examples/cpp
//     arm-none-eabi-g++ $flags replay.cpp ../../policy/panda_satesac.cpp cortex_m.cpp -T cortex_m.ld
//         --specs=rdimon.specs -Wl,--gc-sections -o replay.elf
//     qemu-system-arm -M mps2-an386 -nographic -monitor none -serial none -kernel replay.elf
//         -semihosting-config enable=on,target=native,arg=replay,arg=../../golden.csv
//
// newlib's _start calls main; the emulator handles files, arguments and the exit code (semihosting).
extern "C" {

extern unsigned int __StackTop;
void _start();

void reset_handler() {
  *reinterpret_cast<volatile unsigned int*>(0xE000ED88u) |= 0xFu << 20;  // CPACR: enable the FPU
  __asm volatile("dsb\nisb");
  _start();
}

void fault_handler() {
  for (;;) {
  }
}

int getentropy(void*, unsigned int) { return -1; }  // no entropy source, and no caller

__attribute__((section(".vectors"), used)) void (*const vectors[])() = {
    reinterpret_cast<void (*)()>(&__StackTop), reset_handler, fault_handler, fault_handler, fault_handler, fault_handler};

}
