//! A window's life: what it does at each event of the display server and of its panes.

use crate::keys::{self, Action};
use crate::link::{Link, Message, Wake};
use crate::meter::{Meter, Rate};
use crate::offscreen::Canvas;
use crate::overlay::{Content, Divider, Info};
use crate::pane::Slot;
use crate::screen::{Acquired, Scene, Screen};
use crate::screenshot;
use crate::upload::{self, Upload};
use crate::window::{WindowOptions, WindowReport};
use framelane::Result;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use winit::application::ApplicationHandler;
use winit::event::{ElementState, KeyEvent, MouseButton, WindowEvent};
use winit::event_loop::{ActiveEventLoop, ControlFlow};
use winit::window::{CursorIcon, Fullscreen, WindowId};

/// The numbers in title and overlay change no more often than this: faster nobody can read.
const READING: Duration = Duration::from_millis(500);
/// So long after the last frame the numbers are drawn once more, to say that nothing comes.
const SETTLE: Duration = Duration::from_millis(2200);
/// A surface that could not be drawn into is asked again after this long.
const RETRY: Duration = Duration::from_millis(100);
/// So often in a row, until it counts as one that nobody sees.
const PATIENCE: u32 = 3;
/// A message stays this long.
const MESSAGE: Duration = Duration::from_millis(3500);
/// Points around the divider where the mouse takes hold of it.
const GRIP: f64 = 12.0;

pub(crate) struct App {
    options: WindowOptions,
    link: Arc<Link>,
    instance: wgpu::Instance,
    adapter: wgpu::Adapter,
    /// `None` until the first frame.
    screen: Option<Screen>,

    /// The frame that is shown.
    slot: Option<Slot>,
    /// It is not on the device yet.
    fresh: bool,
    after: Upload,
    before: Upload,
    canvas: Option<Canvas>,

    paused: bool,
    info: bool,
    help: bool,
    split: Option<f32>,
    cursor: f64,
    dragging: bool,
    /// Nobody can see the window.
    covered: bool,
    /// Times in a row that the surface gave nothing to draw into, for the same reason or because it is slow.
    refused: u32,

    meter: Meter,
    rate: Rate,
    rate_at: Option<Instant>,
    settle_at: Option<Instant>,
    /// The surface gave nothing to draw into: ask again then.
    retry_at: Option<Instant>,
    message: Option<(String, Instant)>,
    last_screenshot: Option<PathBuf>,
    saving: Vec<JoinHandle<()>>,

    taken: u64,
    shown: u64,
    drawn: u64,
    closed_by_user: bool,
    failed: Result<()>,
}

impl App {
    pub(crate) fn new(
        options: WindowOptions,
        link: Arc<Link>,
        instance: wgpu::Instance,
        adapter: wgpu::Adapter,
    ) -> Self {
        Self {
            options,
            link,
            instance,
            adapter,
            screen: None,
            slot: None,
            fresh: false,
            after: Upload::default(),
            before: Upload::default(),
            canvas: None,
            paused: false,
            info: true,
            help: false,
            split: None,
            cursor: 0.0,
            dragging: false,
            covered: false,
            refused: 0,
            meter: Meter::new(),
            rate: Rate::default(),
            rate_at: None,
            settle_at: None,
            retry_at: None,
            message: None,
            last_screenshot: None,
            saving: Vec::new(),
            taken: 0,
            shown: 0,
            drawn: 0,
            closed_by_user: false,
            failed: Ok(()),
        }
    }

    /// What it all came to.
    pub(crate) fn report(mut self) -> Result<WindowReport> {
        for save in self.saving.drain(..) {
            // A writer that panicked has printed why; the window is closed, nobody else can be told.
            let _ = save.join();
        }
        self.failed?;
        Ok(WindowReport {
            shown: self.shown,
            replaced: self.link.replaced(),
            // Also the one that waits for the window to be seen again: it no longer will be.
            hidden: self.taken - self.shown,
            closed_by_user: self.closed_by_user,
            path: self.link.path(),
            age: self.meter.ages(),
        })
    }

    /// Take the newest frame, if there is one and the picture is not held.
    fn take(&mut self) -> bool {
        if self.paused {
            return false;
        }
        self.link.disarm_wake();
        let Some(slot) = self.link.mailbox.take() else { return false };
        if let Some(old) = self.slot.replace(slot) {
            self.link.mailbox.give_back(old);
        }
        self.fresh = true;
        self.taken += 1;
        true
    }

    /// A frame is ready.
    fn frame(&mut self, events: &ActiveEventLoop) -> Result<()> {
        if self.screen.is_none() {
            return self.appear(events);
        }
        if !self.can_be_seen() {
            // A file plays on, a stream stays young, and nothing is drawn.
            self.take();
        } else {
            self.redraw();
        }
        Ok(())
    }

    /// Open the window for the first frame.
    fn appear(&mut self, events: &ActiveEventLoop) -> Result<()> {
        if !self.take() {
            return Ok(());
        }
        let Some(size) = self.slot.as_ref().and_then(|slot| slot.picture.size) else { return Ok(()) };
        let WindowOptions { title, policy, vsync, .. } = &self.options;
        let screen = Screen::open(events, &self.instance, &self.adapter, title, size, *policy, *vsync)?;
        self.link.set_path(upload::path(&screen.gpu.adapter));
        self.screen = Some(screen);
        self.redraw();
        Ok(())
    }

    fn is_minimised(&self) -> bool {
        self.screen.as_ref().is_some_and(|screen| {
            let size = screen.window.inner_size();
            size.width == 0 || size.height == 0
        })
    }

    fn can_be_seen(&self) -> bool {
        !self.covered && self.refused < PATIENCE && !self.is_minimised()
    }

    fn redraw(&self) {
        if let Some(screen) = &self.screen {
            screen.window.request_redraw();
        }
    }

    fn draw(&mut self) -> Result<()> {
        if self.screen.is_none() || self.is_minimised() {
            return Ok(());
        }
        let acquired = match &mut self.screen {
            Some(screen) => screen.acquire()?,
            None => return Ok(()),
        };
        let target = match acquired {
            Acquired::Ready(target) => target,
            Acquired::Again => {
                self.redraw();
                return Ok(());
            }
            Acquired::Hidden => {
                self.refused += 1;
                self.take();
                self.retry_at = Some(Instant::now() + RETRY);
                return Ok(());
            }
        };
        self.refused = 0;
        // Only now, as late as can be: the wait for the refresh is over.
        self.take();
        // Taken now, or while the window was not there or not to be seen.
        let new = self.fresh;
        let now = Instant::now();
        self.read_numbers(now, false);
        self.upload()?;
        let content = self.content(now);
        let (Some(screen), Some(after)) = (&mut self.screen, self.after.get()) else { return Ok(()) };
        let before = self.before.get().zip(self.split);
        screen.present(target, &Scene { after, before, content: &content })?;
        self.drawn += 1;
        if new {
            self.shown += 1;
            if let Some(meta) = self.slot.as_ref().and_then(|slot| slot.meta.as_ref()) {
                let now = Instant::now();
                self.meter.shown(now, now.saturating_duration_since(meta.captured));
                self.settle_at = Some(now + SETTLE);
            }
        }
        Ok(())
    }

    /// Put the frame that was taken on the device.
    fn upload(&mut self) -> Result<()> {
        let (Some(screen), Some(slot)) = (&self.screen, &self.slot) else { return Ok(()) };
        if std::mem::take(&mut self.fresh) {
            self.after.put(&screen.gpu, &slot.picture)?;
            self.before.put(&screen.gpu, &slot.before)?;
        }
        Ok(())
    }

    /// Bring title and overlay up to date, if it is time or `must` be.
    fn read_numbers(&mut self, now: Instant, must: bool) {
        if !must && self.rate_at.is_some_and(|at| now < at + READING) {
            return;
        }
        self.rate = self.meter.rate(now);
        // The first rates are of too few frames to be kept on the screen for long.
        self.rate_at = (self.shown > 1).then_some(now);
        if let Some(screen) = &self.screen {
            let Rate { fps, age } = self.rate;
            let title = match (self.state(), self.shown > 1) {
                (Some(state), _) => format!("{} — {state}", self.options.title),
                (None, true) => {
                    format!("{} — {fps:.1} fps, {:.0} ms", self.options.title, age.as_secs_f64() * 1e3)
                }
                (None, false) => self.options.title.clone(),
            };
            screen.window.set_title(&title);
        }
    }

    fn state(&self) -> Option<&'static str> {
        if self.paused {
            Some("paused")
        } else if self.link.has_ended() && !self.link.mailbox.has_ready() {
            Some("end")
        } else {
            None
        }
    }

    fn content(&self, now: Instant) -> Content {
        let meta = self.slot.as_ref().and_then(|slot| slot.meta.as_ref());
        // The meter has not seen the first frame yet: it is being drawn now.
        let first = meta.filter(|_| self.shown == 0).map(|meta| now.saturating_duration_since(meta.captured));
        let info = self.info.then(|| Info {
            name: meta.map_or_else(|| self.options.title.clone(), |meta| meta.source.to_string()),
            fps: self.rate.fps,
            age_ms: first.unwrap_or(self.rate.age).as_secs_f64() * 1e3,
            dropped: self.link.replaced(),
            state: self.state(),
        });
        let message = self.message.as_ref().filter(|(_, until)| now < *until).map(|(text, _)| text.clone());
        Content { info, divider: self.divider(), help: self.help.then(|| self.link.path()), message }
    }

    /// The divider, if it is on and there is something on both of its sides.
    fn divider(&self) -> Option<Divider> {
        let (screen, after, before) = (self.screen.as_ref()?, self.after.get()?, self.before.get()?);
        let rect = screen.rect(after.size);
        Some(Divider { x: rect.column(self.split?), rect, before: before.size, after: after.size })
    }

    fn say(&mut self, text: impl Into<String>) {
        self.message = Some((text.into(), Instant::now() + MESSAGE));
        self.redraw();
    }

    fn act(&mut self, action: Action, events: &ActiveEventLoop) -> Result<()> {
        match action {
            Action::Pause => {
                self.paused = !self.paused;
                self.read_numbers(Instant::now(), true);
            }
            Action::FullScreen => self.set_full_screen(!self.is_full_screen()),
            Action::Screenshot => self.screenshot()?,
            Action::Split if self.split.is_some() => self.split = None,
            Action::Split if self.before.get().is_none() => {
                self.say("This stream has no picture from before the network");
            }
            Action::Split => self.split = Some(0.5),
            Action::MoveDivider(step) => {
                self.split = self.split.map(|split| (split + step).clamp(0.0, 1.0));
            }
            Action::Info => self.info = !self.info,
            Action::Help => self.help = !self.help,
            Action::Back if self.help => self.help = false,
            Action::Back if self.is_full_screen() => self.set_full_screen(false),
            Action::Back | Action::Close => self.close(events, true),
        }
        self.redraw();
        Ok(())
    }

    fn is_full_screen(&self) -> bool {
        self.screen.as_ref().is_some_and(|screen| screen.window.fullscreen().is_some())
    }

    fn set_full_screen(&self, on: bool) {
        if let Some(screen) = &self.screen {
            screen.window.set_fullscreen(on.then_some(Fullscreen::Borderless(None)));
        }
    }

    fn close(&mut self, events: &ActiveEventLoop, by_user: bool) {
        self.closed_by_user = by_user;
        self.link.mailbox.close();
        events.exit();
    }

    /// Save what the pane shows, at the picture's own size: drawn once more, read back.
    fn screenshot(&mut self) -> Result<()> {
        let (Some(screen), Some(after)) = (&self.screen, self.after.get()) else { return Ok(()) };
        let Some(meta) = self.slot.as_ref().and_then(|slot| slot.meta.as_ref()) else { return Ok(()) };
        let before = self.before.get().zip(self.split);
        let canvas = self.canvas.get_or_insert_with(|| Canvas::new(&screen.gpu));
        let rgb = canvas.draw(&screen.gpu, after, before, after.size, None)?;
        let saving = screenshot::save(self.link.clone(), meta, before.is_some(), rgb, after.size);
        self.saving.retain(|save| !save.is_finished());
        match saving {
            Ok(save) => self.saving.push(save),
            Err(error) => self.say(format!("The screenshot could not be saved: {error}")),
        }
        Ok(())
    }

    fn key(&mut self, key: &KeyEvent, events: &ActiveEventLoop) -> Result<()> {
        if key.state != ElementState::Pressed {
            return Ok(());
        }
        match keys::action(&key.logical_key) {
            // A key that is held moves the divider on, but does not pause and go on and pause.
            Some(action) if !key.repeat || matches!(action, Action::MoveDivider(_)) => {
                self.act(action, events)
            }
            _ => Ok(()),
        }
    }

    fn mouse_moved(&mut self, x: f64) {
        self.cursor = x;
        if self.dragging {
            self.drag();
        }
        if let Some(screen) = &self.screen {
            let grip = self.dragging || self.over_divider();
            screen.window.set_cursor(if grip { CursorIcon::EwResize } else { CursorIcon::Default });
        }
    }

    fn over_divider(&self) -> bool {
        let scale = self.screen.as_ref().map_or(1.0, |screen| screen.window.scale_factor());
        self.divider().is_some_and(|divider| (f64::from(divider.x) - self.cursor).abs() <= GRIP * scale)
    }

    fn drag(&mut self) {
        if let Some(divider) = self.divider() {
            self.split = Some(divider.rect.share(self.cursor));
            self.redraw();
        }
    }

    fn window_event(&mut self, event: WindowEvent, events: &ActiveEventLoop) -> Result<()> {
        match event {
            WindowEvent::RedrawRequested => self.draw()?,
            WindowEvent::CloseRequested => self.close(events, true),
            WindowEvent::Resized(size) => {
                if let Some(screen) = &mut self.screen {
                    screen.resize(size);
                    screen.gpu.check()?;
                }
                self.redraw();
            }
            WindowEvent::ScaleFactorChanged { .. } => self.redraw(),
            WindowEvent::Occluded(covered) => {
                self.covered = covered;
                self.redraw();
            }
            WindowEvent::KeyboardInput { event, is_synthetic: false, .. } => self.key(&event, events)?,
            WindowEvent::CursorMoved { position, .. } => self.mouse_moved(position.x),
            WindowEvent::MouseInput { state, button: MouseButton::Left, .. } => {
                self.dragging = state == ElementState::Pressed && self.over_divider();
            }
            _ => {}
        }
        Ok(())
    }

    fn wake(&mut self, wake: Wake, events: &ActiveEventLoop) -> Result<()> {
        match wake {
            Wake::Frame => self.frame(events)?,
            Wake::Close => self.close(events, false),
            Wake::End => {
                self.read_numbers(Instant::now(), true);
                self.redraw();
            }
            Wake::Saved(Ok(path)) => {
                self.say(format!("Saved {}", path.display()));
                self.last_screenshot = Some(path);
            }
            Wake::Saved(Err(why)) => self.say(why),
        }
        Ok(())
    }

    /// A failure ends the window, and is told by [`App::report`].
    fn note(&mut self, result: Result<()>, events: &ActiveEventLoop) {
        if let Err(error) = result {
            self.failed = Err(error);
            self.close(events, false);
        }
    }

    fn tell_status(&self) {
        let mut status = self.link.status();
        status.open = self.screen.is_some();
        status.size = self.screen.as_ref().map_or((0, 0), Screen::size);
        status.shown = self.shown;
        status.hidden = self.taken - self.shown - u64::from(self.fresh);
        status.drawn = self.drawn;
        status.paused = self.paused;
        status.split = self.split;
        status.info = self.info;
        status.help = self.help;
        status.full_screen = self.is_full_screen();
        status.screenshot.clone_from(&self.last_screenshot);
    }
}

impl ApplicationHandler<Message> for App {
    // The window appears with the first frame, not when the loop begins.
    fn resumed(&mut self, _: &ActiveEventLoop) {}

    fn user_event(&mut self, events: &ActiveEventLoop, message: Message) {
        if message.window == self.link.window() {
            let result = self.wake(message.wake, events);
            self.note(result, events);
        }
    }

    fn window_event(&mut self, events: &ActiveEventLoop, id: WindowId, event: WindowEvent) {
        if self.screen.as_ref().is_some_and(|screen| screen.window.id() == id) {
            let result = App::window_event(self, event, events);
            self.note(result, events);
        }
    }

    fn about_to_wait(&mut self, events: &ActiveEventLoop) {
        let now = Instant::now();
        if self.settle_at.is_some_and(|at| now >= at) {
            self.settle_at = None;
            self.read_numbers(now, true);
            self.redraw();
        }
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry_at = None;
            self.redraw();
        }
        if self.message.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.message = None;
            self.redraw();
        }
        // A picture that nobody sees is not waited for: a run would not end before somebody looks.
        let waits = self.link.mailbox.has_ready() || self.fresh && self.can_be_seen();
        let over = self.link.has_ended() && !waits;
        if over && (self.options.close_at_end || self.screen.is_none()) {
            self.close(events, false);
        }
        let message_ends = self.message.as_ref().map(|(_, until)| *until);
        let next = [self.settle_at, self.retry_at, message_ends].into_iter().flatten().min();
        events.set_control_flow(next.map_or(ControlFlow::Wait, ControlFlow::WaitUntil));
        self.tell_status();
    }

    fn exiting(&mut self, _: &ActiveEventLoop) {
        // The window must be gone before the loop is used again.
        self.screen = None;
        self.tell_status();
    }
}
