//! What a call costs when nothing is tracked, and that a backward pass runs once. One test, alone
//! in its process: it counts.

#![cfg(all(feature = "flex", feature = "autodiff"))]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::Ordering;

use armature_core::backend::Flex;
use armature_core::{Arm, dispatch};
use burn::tensor::{Device, Int, Tensor};
use common::{BACKWARDS, PickRows, SAVING, SinCos, assert_close, values};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;
// SAFETY: every call goes to the system's allocator unchanged; counting touches a `Cell` in a
// thread local that is never allocated or dropped.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}
#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations<R>(run: impl FnOnce() -> R) -> (usize, R) {
    let before = ALLOCATIONS.with(Cell::get);
    let result = run();
    (ALLOCATIONS.with(Cell::get) - before, result)
}

#[test]
fn untracked_calls_cost_what_their_arm_costs() {
    let op = PickRows { scale: 2.0 };
    let inputs = |device: &Device| {
        let x = Tensor::<2>::from_floats([[1.0, 2.0], [3.0, 4.0]], device);
        let rows = Tensor::<1, Int>::from_ints([1], device);
        (x, rows)
    };

    // Each call owns its inputs alone; the second round is past whatever is set up once.
    let mut counts = Vec::new();
    for _ in 0..2 {
        let (x, rows) = inputs(&Device::flex());
        let primitives = (
            x.try_into_primitive::<Flex>().unwrap(),
            rows.try_into_primitive::<Flex>().unwrap(),
            None,
        );
        let (arm, _) = allocations(|| Arm::<Flex>::forward(&op, primitives).unwrap());
        let (x, rows) = inputs(&Device::flex());
        let routed = (x.into_dispatch(), rows.into_dispatch(), None);
        let (call, _) = allocations(|| dispatch(op.clone(), routed).unwrap());
        counts.push((arm, call));
    }
    let (arm, call) = counts[1];
    assert!(arm > 0, "the allocator counts");
    assert_eq!(
        call, arm,
        "the way to the arm and back allocates: {counts:?}"
    );

    // On a device with autodiff, nothing is saved for an untracked input.
    let (x, rows) = inputs(&Device::flex().autodiff());
    let untracked = (
        x.clone().into_dispatch(),
        rows.clone().into_dispatch(),
        None,
    );
    let (y, _) = dispatch(op.clone(), untracked).unwrap();
    let y = Tensor::<2>::from_dispatch(y);
    assert!(!y.is_require_grad());
    assert_eq!(SAVING.load(Ordering::Relaxed), 0);
    let tracked = (x.require_grad().into_dispatch(), rows.into_dispatch(), None);
    let _kept = dispatch(op, tracked).unwrap();
    assert_eq!(SAVING.load(Ordering::Relaxed), 1);

    // The untracked result can meet a tracked tensor of its context.
    let w = Tensor::<2>::ones([1, 2], &y.device()).require_grad();
    let grads = (y * w.clone()).sum().backward();
    assert_close(&values(w.grad(&grads).unwrap()), &[6.0, 8.0]);

    // Two outputs, one backward pass.
    let x = Tensor::<1>::from_floats([0.5], &w.device()).require_grad();
    let (sin, cos) = dispatch(SinCos, x.into_dispatch()).unwrap();
    let _ = (Tensor::<1>::from_dispatch(sin) * Tensor::<1>::from_dispatch(cos)).backward();
    assert_eq!(BACKWARDS.load(Ordering::Relaxed), 1);
}
