#include "textflag.h"

// The names are those of FIPS 180-4 and of Intel's SHA extensions: a lane's
// state is two registers, A B E F and C D G H from the highest word down, and
// its message schedule is the last sixteen words in four more. Two lanes in turn
// fill the time that each waits for its own last round.

// ROUNDS does four rounds with the schedule's words m.
#define ROUNDS(k, m, abef, cdgh) \
	MOVO        m, X0                   \
	PADDD       rounds<>+k(SB), X0      \
	SHA256RNDS2 X0, abef, cdgh          \
	PSHUFD      $0x0e, X0, X0           \
	SHA256RNDS2 X0, cdgh, abef

// SCHEDULE replaces the oldest words, w0, by the next four.
#define SCHEDULE(w0, w1, w2, w3, tmp) \
	SHA256MSG1 w1, w0       \
	MOVO       w3, tmp      \
	PALIGNR    $4, w2, tmp  \
	PADDD      tmp, w0      \
	SHA256MSG2 w3, w0

#define LOAD(at, w) \
	MOVOU  at, w \
	PSHUFB X15, w

// BOTH does four rounds of both lanes, and their schedules.
#define BOTH(k, a0, a1, a2, a3, b0, b1, b2, b3) \
	SCHEDULE(a0, a1, a2, a3, X7)   \
	SCHEDULE(b0, b1, b2, b3, X14)  \
	ROUNDS(k, a0, X1, X2)          \
	ROUNDS(k, b0, X8, X9)

// func sumPair(keys *[2][2]uint64, blocks *[2][64]byte)
TEXT ·sumPair(SB), NOSPLIT, $0-16
	MOVQ keys+0(FP), DI
	MOVQ blocks+8(FP), SI
	MOVO flip<>+0(SB), X15
	MOVO first<>+0(SB), X1
	MOVO first<>+16(SB), X2
	MOVO X1, X8
	MOVO X2, X9
	LOAD(0(SI), X3)
	LOAD(64(SI), X10)
	ROUNDS(0, X3, X1, X2)
	ROUNDS(0, X10, X8, X9)
	LOAD(16(SI), X4)
	LOAD(80(SI), X11)
	ROUNDS(16, X4, X1, X2)
	ROUNDS(16, X11, X8, X9)
	LOAD(32(SI), X5)
	LOAD(96(SI), X12)
	ROUNDS(32, X5, X1, X2)
	ROUNDS(32, X12, X8, X9)
	LOAD(48(SI), X6)
	LOAD(112(SI), X13)
	ROUNDS(48, X6, X1, X2)
	ROUNDS(48, X13, X8, X9)
	BOTH(64, X3, X4, X5, X6, X10, X11, X12, X13)
	BOTH(80, X4, X5, X6, X3, X11, X12, X13, X10)
	BOTH(96, X5, X6, X3, X4, X12, X13, X10, X11)
	BOTH(112, X6, X3, X4, X5, X13, X10, X11, X12)
	BOTH(128, X3, X4, X5, X6, X10, X11, X12, X13)
	BOTH(144, X4, X5, X6, X3, X11, X12, X13, X10)
	BOTH(160, X5, X6, X3, X4, X12, X13, X10, X11)
	BOTH(176, X6, X3, X4, X5, X13, X10, X11, X12)
	BOTH(192, X3, X4, X5, X6, X10, X11, X12, X13)
	BOTH(208, X4, X5, X6, X3, X11, X12, X13, X10)
	BOTH(224, X5, X6, X3, X4, X12, X13, X10, X11)
	BOTH(240, X6, X3, X4, X5, X13, X10, X11, X12)
	PADDD  first<>+0(SB), X1
	PADDD  first<>+16(SB), X2
	PADDD  first<>+0(SB), X8
	PADDD  first<>+16(SB), X9
	MOVHPS X1, 0(DI)
	MOVHPS X2, 8(DI)
	MOVHPS X8, 16(DI)
	MOVHPS X9, 24(DI)
	RET

// func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL sub+4(FP), CX
	CPUID
	MOVL AX, eax+8(FP)
	MOVL BX, ebx+12(FP)
	MOVL CX, ecx+16(FP)
	MOVL DX, edx+20(FP)
	RET

// func prefetch(lines []uintptr)
TEXT ·prefetch(SB), NOSPLIT, $0-24
	MOVQ lines_base+0(FP), SI
	MOVQ lines_len+8(FP), CX
	JMP  check

next:
	MOVQ       (SI), AX
	PREFETCHT0 (AX)
	ADDQ       $8, SI
	DECQ       CX

check:
	TESTQ CX, CX
	JNZ   next
	RET

DATA flip<>+0(SB)/8, $0x0405060700010203
DATA flip<>+8(SB)/8, $0x0c0d0e0f08090a0b
GLOBL flip<>(SB), NOPTR|RODATA, $16

DATA first<>+0(SB)/8, $0x510e527f9b05688c
DATA first<>+8(SB)/8, $0x6a09e667bb67ae85
DATA first<>+16(SB)/8, $0x1f83d9ab5be0cd19
DATA first<>+24(SB)/8, $0x3c6ef372a54ff53a
GLOBL first<>(SB), NOPTR|RODATA, $32

DATA rounds<>+0(SB)/8, $0x71374491428a2f98
DATA rounds<>+8(SB)/8, $0xe9b5dba5b5c0fbcf
DATA rounds<>+16(SB)/8, $0x59f111f13956c25b
DATA rounds<>+24(SB)/8, $0xab1c5ed5923f82a4
DATA rounds<>+32(SB)/8, $0x12835b01d807aa98
DATA rounds<>+40(SB)/8, $0x550c7dc3243185be
DATA rounds<>+48(SB)/8, $0x80deb1fe72be5d74
DATA rounds<>+56(SB)/8, $0xc19bf1749bdc06a7
DATA rounds<>+64(SB)/8, $0xefbe4786e49b69c1
DATA rounds<>+72(SB)/8, $0x240ca1cc0fc19dc6
DATA rounds<>+80(SB)/8, $0x4a7484aa2de92c6f
DATA rounds<>+88(SB)/8, $0x76f988da5cb0a9dc
DATA rounds<>+96(SB)/8, $0xa831c66d983e5152
DATA rounds<>+104(SB)/8, $0xbf597fc7b00327c8
DATA rounds<>+112(SB)/8, $0xd5a79147c6e00bf3
DATA rounds<>+120(SB)/8, $0x1429296706ca6351
DATA rounds<>+128(SB)/8, $0x2e1b213827b70a85
DATA rounds<>+136(SB)/8, $0x53380d134d2c6dfc
DATA rounds<>+144(SB)/8, $0x766a0abb650a7354
DATA rounds<>+152(SB)/8, $0x92722c8581c2c92e
DATA rounds<>+160(SB)/8, $0xa81a664ba2bfe8a1
DATA rounds<>+168(SB)/8, $0xc76c51a3c24b8b70
DATA rounds<>+176(SB)/8, $0xd6990624d192e819
DATA rounds<>+184(SB)/8, $0x106aa070f40e3585
DATA rounds<>+192(SB)/8, $0x1e376c0819a4c116
DATA rounds<>+200(SB)/8, $0x34b0bcb52748774c
DATA rounds<>+208(SB)/8, $0x4ed8aa4a391c0cb3
DATA rounds<>+216(SB)/8, $0x682e6ff35b9cca4f
DATA rounds<>+224(SB)/8, $0x78a5636f748f82ee
DATA rounds<>+232(SB)/8, $0x8cc7020884c87814
DATA rounds<>+240(SB)/8, $0xa4506ceb90befffa
DATA rounds<>+248(SB)/8, $0xc67178f2bef9a3f7
GLOBL rounds<>(SB), NOPTR|RODATA, $256
