//! Checks and times RMSNorm on one runtime; needs nothing but this binary and the runtime's driver, so
//! that it can be taken to a machine without Rust.
//!
//! `bench_rms_norm <cuda|rocm|vulkan|wgpu|cpu> [check] [large] [time] [sweep]`; without a word after the
//! runtime: check, large and time. Every result is one line of JSON.
//!
//! - `check`: both passes against the `f64` reference, over shapes and dtypes;
//! - `large`: offsets beyond 2³² elements, on sampled rows, where the device has the memory;
//! - `time`: forward and backward at the sizes that are compared, and a copy of the same bytes;
//! - `sweep`: the same by other launch shapes, to find better defaults.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use armature_cubecl::tuning::{self, Tuning};
use armature_cubecl::{rms_norm_backward, rms_norm_saving, supports};
use burn_backend::ops::FloatTensorOps;
use burn_backend::{DType, FloatDType, Shape, Slice};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice};
use common::{EPSILON, errors, exact, tensor, tolerance};

type B = CubeBackend;

fn main() {
    let mut words = std::env::args().skip(1);
    let runtime = words.next().unwrap_or_else(|| "cuda".into());
    let mut parts: Vec<String> = words.collect();
    if parts.is_empty() {
        parts = ["check", "large", "time"].map(String::from).to_vec();
    }
    let device = match common::device(&runtime) {
        Ok(device) => device,
        Err(reason) => {
            eprintln!("{runtime}: {reason}");
            std::process::exit(2);
        }
    };
    let client = device.client();
    let properties = client.properties();
    println!(
        "{{\"device\":{:?},\"runtime\":{runtime:?},\"multiprocessors\":{:?},\"plane\":[{},{}],\"planes\":{:?},\"max_units\":{},\"load_width\":{}}}",
        properties.identity.name,
        properties
            .hardware
            .num_streaming_multiprocessors
            .unwrap_or(0),
        properties.hardware.plane_size_min,
        properties.hardware.plane_size_max,
        format!("{:?}", properties.features.plane),
        properties.hardware.max_units_per_cube,
        properties.hardware.load_width,
    );

    let mut failures = 0;
    for part in &parts {
        match part.as_str() {
            "check" => failures += check(&device),
            "large" => failures += large(&device),
            "time" => time(&device),
            "sweep" => sweep(&device),
            other => panic!("no such part: {other}"),
        }
    }
    if failures > 0 {
        println!("{{\"failures\":{failures}}}");
        std::process::exit(1);
    }
}

const DTYPES: [DType; 4] = [DType::F32, DType::BF16, DType::F16, DType::F64];

/// Both passes on many shapes; how many were wrong.
fn check(device: &CubeDevice) -> usize {
    let mut failures = 0;
    let mut shapes: Vec<[usize; 2]> = [
        1, 2, 3, 7, 31, 32, 33, 64, 100, 127, 128, 129, 255, 256, 257, 512, 768, 1000, 1024, 1025,
        2048, 3000, 4096, 4097, 5120, 8192, 8193, 12_288, 16_384, 16_385, 32_768, 40_000, 65_536,
        131_073,
    ]
    .into_iter()
    .map(|hidden| [(1 << 21) / hidden.max(2048) + 3, hidden])
    .collect();
    shapes.extend([
        [70_000, 1],
        [70_000, 8],
        [70_000, 33],
        [70_000, 256],
        [1, 4096],
        [2, 5],
    ]);
    shapes.extend([[0, 64], [3, 0]]);
    for dtype in DTYPES.into_iter().filter(|dtype| supports(device, *dtype)) {
        for [rows, hidden] in &shapes {
            let errors = errors(
                tensor(device, &[*rows, *hidden], dtype, 1),
                (*rows % 2 == 0 || *hidden > 9).then(|| tensor(device, &[*hidden], dtype, 2)),
                tensor(device, &[*rows, *hidden], dtype, 3),
            );
            let right = errors.max() <= tolerance(dtype);
            failures += usize::from(!right);
            println!(
                "{{\"check\":\"{rows}x{hidden}\",\"dtype\":\"{dtype:?}\",\"y\":{:.2e},\"rstd\":{:.2e},\"dx\":{:.2e},\"dw\":{:.2e},\"ok\":{right}}}",
                errors.y, errors.rstd, errors.dx, errors.dw
            );
        }
    }
    failures
}

/// One tensor of more than 2³² elements: constant, but for some rows that are checked, among them one on
/// each side of that border and the last. How many rows were wrong.
fn large(device: &CubeDevice) -> usize {
    let dtype = if supports(device, DType::BF16) {
        DType::BF16
    } else {
        DType::F16
    };
    let hidden = 4096;
    let rows = (1 << 20) + 1000;
    let bytes = (rows * hidden * dtype.size()) as u64;
    let client = device.client();
    let memory = &client.properties().memory;
    // x, the gradient, y and dx, and one more while rows are set.
    if !supports(device, dtype)
        || memory.max_memory().is_none_or(|most| most < 6 * bytes)
        || memory.max_page_size < bytes
    {
        println!("{{\"large\":\"skipped\",\"needs_bytes\":{}}}", 6 * bytes);
        return 0;
    }
    let sampled = [
        0,
        1,
        65_535,
        65_536,
        (1 << 19) - 1,
        1 << 19,
        (1 << 20) - 1,
        1 << 20,
        rows - 1,
    ];
    let make = |background: f32, seed: u64| {
        let shape = Shape::new([rows, hidden]);
        let dtype: FloatDType = dtype.into();
        let mut all = B::float_full(shape, background.into(), device, dtype);
        for row in sampled {
            let value = tensor(device, &[1, hidden], dtype.into(), seed + row as u64);
            let at = [Slice::new(row as isize, Some(row as isize + 1), 1)];
            all = B::float_slice_assign(all, &at, value);
        }
        all
    };
    let row_of = |tensor: &CubeTensor, row: usize| {
        let at = [Slice::new(row as isize, Some(row as isize + 1), 1)];
        exact(&B::float_slice(tensor.clone(), &at))
    };
    let (x, grad) = (make(0.5, 100), make(0.0, 7_000_000));
    let weight = tensor(device, &[hidden], dtype, 2);
    let (y, rstd) = rms_norm_saving(x.clone(), Some(weight.clone()), EPSILON).unwrap();
    let (dx, dw) = rms_norm_backward(
        x.clone(),
        Some(weight.clone()),
        rstd,
        grad.clone(),
        (true, true),
    )
    .unwrap();
    let (dx, dw) = (dx.unwrap(), dw.unwrap());

    let weight = exact(&weight);
    let mut dw_true = vec![0.0; hidden];
    let mut failures = 0;
    let extra = [sampled[3] + 1, rows - 2];
    for row in sampled.into_iter().chain(extra) {
        let (x, grad) = (row_of(&x, row), row_of(&grad, row));
        let (y_true, _) = common::reference::forward(&x, Some(&weight), hidden, EPSILON);
        let (dx_true, dw_row) =
            common::reference::backward(&x, Some(&weight), &grad, hidden, EPSILON);
        dw_true
            .iter_mut()
            .zip(dw_row)
            .for_each(|(sum, row)| *sum += row);
        let y_error = common::reference::relative_error(&row_of(&y, row), &y_true);
        let dx_error = common::reference::relative_error(&row_of(&dx, row), &dx_true);
        let right = y_error <= tolerance(dtype) && dx_error <= tolerance(dtype);
        failures += usize::from(!right);
        println!(
            "{{\"large\":\"row {row} of {rows}x{hidden}\",\"dtype\":\"{dtype:?}\",\"y\":{y_error:.2e},\"dx\":{dx_error:.2e},\"ok\":{right}}}"
        );
    }
    let dw_error = common::reference::relative_error(&exact(&dw), &dw_true);
    let right = dw_error <= tolerance(dtype);
    println!("{{\"large\":\"dw of {rows}x{hidden}\",\"dw\":{dw_error:.2e},\"ok\":{right}}}");
    failures + usize::from(!right)
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Copy,
    Forward,
    Backward,
    Both,
}

/// Microseconds of one pass.
struct Times {
    /// By the device's own clock, where it has one.
    device: f64,
    /// By the wall, from the first launch until the device is done.
    wall: f64,
    /// What the host takes to launch it. Where that is more than the device takes, `wall` says nothing
    /// of the device.
    host: f64,
}

fn sync(device: &CubeDevice) {
    cubecl::future::block_on(device.client().sync()).expect("the device finishes");
}

/// The least of several measurements of many repetitions each. `busy` keeps the device busy while the
/// repetitions are launched, so that its clock sees them back to back.
fn measure(device: &CubeDevice, busy: impl Fn(), mut run: impl FnMut()) -> Times {
    let client = device.client();
    for _ in 0..3 {
        run();
    }
    sync(device);
    let start = Instant::now();
    run();
    sync(device);
    let once = start.elapsed().as_secs_f64();
    let repetitions = (0.05 / once.max(1e-5)).clamp(1.0, 100.0) as usize;

    let mut times = Times {
        device: f64::INFINITY,
        wall: f64::INFINITY,
        host: f64::INFINITY,
    };
    let per_run = |seconds: f64| seconds / repetitions as f64 * 1e6;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..repetitions {
            run();
        }
        times.host = times.host.min(per_run(start.elapsed().as_secs_f64()));
        sync(device);
        times.wall = times.wall.min(per_run(start.elapsed().as_secs_f64()));

        busy();
        let Ok(window) = client.profile_start() else {
            continue;
        };
        for _ in 0..repetitions {
            run();
        }
        if let Ok(profile) = client.profile_end(window)
            && let Some(ticks) = cubecl::future::block_on(profile.resolve())
        {
            times.device = times.device.min(per_run(ticks.duration().as_secs_f64()));
        }
        sync(device);
    }
    times
}

/// Times one pass and prints it with the bytes that it must move.
fn time_pass(
    device: &CubeDevice,
    pass: Pass,
    [rows, hidden]: [usize; 2],
    dtype: DType,
    tuning: &Tuning,
    label: &str,
) -> f64 {
    let shape = Shape::new([rows, hidden]);
    let full =
        |value: f32| B::float_full(shape.clone(), value.into(), device, FloatDType::from(dtype));
    let x = full(0.7);
    let grad = (pass != Pass::Copy && pass != Pass::Forward).then(|| full(0.3));
    let weight = tensor(device, &[hidden], dtype, 2);
    let (_, rstd) = rms_norm_saving(x.clone(), Some(weight.clone()), EPSILON).unwrap();
    let forward =
        || tuning::rms_norm(x.clone(), Some(weight.clone()), EPSILON, true, tuning).unwrap();
    let backward = |rstd: CubeTensor| {
        let grad = grad.clone().expect("made for this pass");
        let weight = Some(weight.clone());
        tuning::rms_norm_backward(x.clone(), weight, rstd, grad, (true, true), tuning).unwrap()
    };
    let busy = || (0..if is_small(device) { 0 } else { 60 }).for_each(|_| drop(x.copy()));
    let times = measure(device, busy, || match pass {
        Pass::Copy => drop(x.copy()),
        Pass::Forward => drop(forward()),
        Pass::Backward => drop(backward(rstd.clone())),
        Pass::Both => {
            let (_, rstd) = forward();
            drop(backward(rstd.expect("saved")));
        }
    });
    let streams = match pass {
        Pass::Copy | Pass::Forward => 2,
        Pass::Backward => 3,
        Pass::Both => 5,
    };
    let bytes = (streams * rows * hidden * dtype.size()) as f64;
    let best = if times.device.is_finite() {
        times.device
    } else {
        times.wall
    };
    println!(
        "{{\"time\":\"{pass:?}\",\"shape\":\"{rows}x{hidden}\",\"dtype\":\"{dtype:?}\",\"device_us\":{:.1},\"wall_us\":{:.1},\"host_us\":{:.1},\"bytes\":{bytes:.0},\"gb_per_s\":{:.0}{label}}}",
        times.device,
        times.wall,
        times.host,
        bytes / best / 1e3,
    );
    best
}

const SIZES: [[usize; 2]; 3] = [[16_384, 4096], [65_536, 1024], [4096, 16_384]];

/// Whether the full sizes would take minutes, as on anything but a GPU.
fn is_small(device: &CubeDevice) -> bool {
    device.client().properties().identity.physical.is_none()
}

fn sizes(device: &CubeDevice) -> Vec<[usize; 2]> {
    let fewer = if is_small(device) { 64 } else { 1 };
    SIZES
        .into_iter()
        .map(|[rows, hidden]| [rows / fewer, hidden])
        .collect()
}

fn time(device: &CubeDevice) {
    for dtype in [DType::F32, DType::BF16, DType::F16] {
        if !supports(device, dtype) {
            continue;
        }
        for size in sizes(device) {
            for pass in [Pass::Copy, Pass::Forward, Pass::Backward, Pass::Both] {
                time_pass(device, pass, size, dtype, &Tuning::default(), "");
            }
        }
    }
}

fn sweep(device: &CubeDevice) {
    for dtype in [DType::F32, DType::BF16] {
        if !supports(device, dtype) {
            continue;
        }
        for size in sizes(device) {
            let mut best: [(f64, String); 2] = [
                (f64::INFINITY, String::new()),
                (f64::INFINITY, String::new()),
            ];
            for (share_bytes, held_bytes) in
                [(16, 192), (32, 192), (64, 192), (64, 384), (128, 384)]
            {
                for cube_units in [128, 256, 512] {
                    for plane_shares in [1, 2] {
                        for resident_units in [512, 1024, 1536, 2048] {
                            for resident_always in [false, true] {
                                let tuning = Tuning {
                                    cube_units,
                                    share_bytes,
                                    plane_shares,
                                    held_bytes,
                                    resident_units,
                                    resident_always,
                                };
                                let label = format!(
                                    ",\"share_bytes\":{share_bytes},\"held_bytes\":{held_bytes},\"cube_units\":{cube_units},\"plane_shares\":{plane_shares},\"resident_units\":{resident_units},\"resident_always\":{resident_always}"
                                );
                                // Forward steps over rows only if told to; backward always does.
                                let passes = match (resident_always, resident_units) {
                                    (false, 1024) => &[Pass::Forward, Pass::Backward][..],
                                    (false, _) => &[Pass::Backward],
                                    (true, _) => &[Pass::Forward],
                                };
                                for pass in passes {
                                    let time =
                                        time_pass(device, *pass, size, dtype, &tuning, &label);
                                    let best = &mut best[usize::from(*pass == Pass::Backward)];
                                    if time < best.0 {
                                        *best = (time, label.clone());
                                    }
                                }
                            }
                        }
                    }
                }
            }
            for (pass, (time, label)) in ["Forward", "Backward"].iter().zip(best) {
                println!(
                    "{{\"best\":\"{pass}\",\"shape\":\"{}x{}\",\"dtype\":\"{dtype:?}\",\"us\":{time:.1}{label}}}",
                    size[0], size[1]
                );
            }
        }
    }
}
